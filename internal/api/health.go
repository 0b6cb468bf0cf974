package api

import (
	"context"
	"net/http"
)

// Health is what probes are told: no more than whether to send requests.
type health struct {
	Status string `json:"status"`
}

func (a *API) alive(context.Context, *exchange) (health, error) { return health{"ok"}, nil }

// readiness says no from the moment that the server is told to stop.
func (a *API) readiness(context.Context, *exchange) (health, error) {
	switch {
	case a.stopping.Load():
		return health{}, refuse(codeStopping, "the server is stopping")
	case !a.o.Gate.Ready():
		p := refuse(codeStopping, "calls are not taken yet, or the store does not answer")
		return health{}, p
	}
	return health{"ok"}, nil
}

func (a *API) openAPI(*exchange) (*reply, error) {
	return &reply{status: http.StatusOK, kind: typeJSON, body: a.document}, nil
}

func (a *API) docs(*exchange) (*reply, error) {
	h := http.Header{"Content-Security-Policy": {"default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"}}
	return &reply{status: http.StatusOK, kind: "text/html; charset=utf-8", header: h, body: a.page}, nil
}

// resourceItem is the metadata of a protected resource (RFC 9728).
type resourceItem struct {
	Resource      string   `json:"resource"`
	Scopes        []string `json:"scopes_supported"`
	Methods       []string `json:"bearer_methods_supported"`
	Documentation string   `json:"resource_documentation"`
}

func (a *API) protectedResource(context.Context, *exchange) (resourceItem, error) {
	r := resourceItem{Resource: a.o.URL, Methods: []string{"header"}, Documentation: a.o.URL + "/docs"}
	for _, s := range scopesOf(a.routes) {
		r.Scopes = append(r.Scopes, string(s))
	}
	return r, nil
}

// keys are the public keys that receipts and approvals are verified with.
func (a *API) publicKeys(*exchange) (*reply, error) {
	ring, err := a.o.Ring()
	if err != nil {
		return nil, err
	}
	return &reply{status: http.StatusOK, kind: "application/jwk-set+json", body: ring.JSON()}, nil
}
