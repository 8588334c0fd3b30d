package rest_test

import (
	parleyhttp "parley/http"
	"parley/http/docs"
	"parley/http/rest"
)

func init() {
	rest.ServiceRoutes = func() []rest.Route { return append(parleyhttp.Declared(), docs.Routes("", "")...) }
	rest.ServiceDocument = docs.Document
}
