// Package rest is a framework for typed endpoints.
//
// A Route names a method, a path, who may call it, and a handler from one struct to
// another. The tags of the first struct say what a request may contain: from them come
// the binding, its errors, and the OpenAPI document. A Call is one request while its
// handler runs. A handler returns an error to refuse a request; only this package decides
// with which status, class and body an error is answered.
//
// See package parley/http/httpserver for what serves the routes.
package rest
