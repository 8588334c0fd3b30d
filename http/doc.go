// Package http implements the endpoints of the service. A handler resolves what a request
// names, asks the actors, and translates their answer. It decides nothing.
//
// Routes lists the whole interface as a table: one line for each endpoint, with its
// method, its path, its required access, and its handler. See package parley/http/rest
// for how endpoints are declared, and parley/http/httpserver for how requests are checked
// and served.
package http
