// Package rest is a framework for typed endpoints.
//
// A Route names a method, a path, the required access, and a handler from one struct to
// another. The tags of the first struct define what a request may contain: the binding,
// its errors and, in tests, the OpenAPI document are derived from them. A Call is one
// request while its handler runs. A handler returns an error to refuse a request; only
// this package decides the status, class and body of the error's answer.
//
// Package parley/http/httpserver serves the routes.
package rest
