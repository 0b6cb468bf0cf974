package api

import (
	"context"
	"net/http"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/counterfoil/counterfoil/internal/identity"
)

// An access says which gates are before a route. The zero access is all of them.
type access byte

const (
	guarded access = iota
	public         // the addresses' bucket and a small body, no credential
	open           // nothing: health, and the description of the API
)

// A route is one line of the table.
type route struct {
	method  string // "" is every one, for what is mounted whole
	path    string // as http.ServeMux has it
	scope   identity.Scope
	or      identity.Scope // does as well as scope; the handler asks again for what it does
	access  access
	summary string
	query   []string // the parameters that it takes
	endpoint
}

// pattern is the route's name in records and metrics.
func (r *route) pattern() string {
	if r.method == "" {
		return r.path
	}
	return r.method + " " + r.path
}

// An endpoint is what a route does, and what it takes and gives.
type endpoint struct {
	in, out reflect.Type // of the JSON bodies; nil for none
	kind    string       // of an answer that is not JSON
	status  int
	stream  bool // it writes by itself, for as long as it likes
	serve   func(a *API, x *exchange) (*reply, error)
}

// A reply is an answer that is not yet sent.
type reply struct {
	status  int
	kind    string
	header  http.Header
	body    []byte
	deliver func(write func() error) error // of a call: writes by the function that it is given
	sent    bool                           // the handler has written it
}

const typeJSON = "application/json"

// gives is an endpoint without a body that answers with JSON.
func gives[Out any](f func(a *API, ctx context.Context, x *exchange) (Out, error)) endpoint {
	return endpoint{out: reflect.TypeFor[Out](), status: http.StatusOK, serve: func(a *API, x *exchange) (*reply, error) {
		out, err := f(a, x.r.Context(), x)
		if err != nil {
			return nil, err
		}
		return jsonReply(x.route.status, out)
	}}
}

// takes is an endpoint with a JSON body.
func takes[In, Out any](f func(a *API, ctx context.Context, x *exchange, in In) (Out, error)) endpoint {
	e := gives(func(a *API, ctx context.Context, x *exchange) (out Out, err error) {
		var in In
		if err := decode(x.r, &in); err != nil {
			return out, err
		}
		return f(a, ctx, x, in)
	})
	e.in = reflect.TypeFor[In]()
	return e
}

// sends is an endpoint that makes its reply itself.
func sends(kind string, f func(a *API, x *exchange) (*reply, error)) endpoint {
	return endpoint{kind: kind, status: http.StatusOK, serve: f}
}

// taking documents the body of an endpoint that reads it itself.
func (e endpoint) taking(in reflect.Type) endpoint { e.in = in; return e }

// giving documents the answer of an endpoint that makes it itself.
func (e endpoint) giving(out reflect.Type) endpoint { e.out = out; return e }

// creating is for what makes something new.
func (e endpoint) creating() endpoint { e.status = http.StatusCreated; return e }

func (e endpoint) streaming() endpoint { e.stream = true; return e }

// nothing is the answer of what has nothing to tell.
type nothing struct{}

func jsonReply(status int, v any) (*reply, error) {
	if _, ok := v.(nothing); ok {
		return &reply{status: http.StatusNoContent}, nil
	}
	// Names of tenants and tools come from outside: what is not UTF-8 in them is replaced, never a fault.
	b, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true), json.FormatNilSliceAsNull(false))
	if err != nil {
		return nil, err
	}
	return &reply{status: status, kind: typeJSON, body: b}, nil
}
