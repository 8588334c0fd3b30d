// Package http is the door of the service: it turns requests into commands and
// refusals into answers, and decides nothing else.
//
// The whole interface is a table of routes. A route names its method, its path,
// who may call it, and a handler from one struct to another; the table gives
// the router, the binding of parameters and bodies, the checks of access, and
// the OpenAPI document. What a struct accepts is said in its tags and nowhere
// else.
//
// Checks come in one order on every route: HTTP itself, 401, the trust tier,
// the schema, then the handler.
package http
