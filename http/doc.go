// Package http has the endpoints of the service. A handler resolves what a request names,
// asks the actors, and translates their answer. It decides nothing.
//
// Routes is the whole interface as a table: one line for each endpoint, with its method,
// its path, who may call it, and its handler. See packages parley/http/rest for how
// endpoints are declared, and parley/http/httpserver for how requests are checked and
// served.
package http
