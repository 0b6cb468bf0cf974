package api

import (
	"context"
	"encoding/hex"
	"net/http"
	"strconv"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/translog"
)

// eventItem is an event of a log, at its place. A body that retention has dropped is missing; its leaf stands.
type eventItem struct {
	Sequence int64     `json:"sequence"`
	At       time.Time `json:"at"`
	Leaf     string    `json:"leaf"` // RFC 6962 leaf hash, in hexadecimal
	Event    rawJSON   `json:"event,omitzero"`
}

type eventList struct {
	Items []eventItem `json:"items"`
	Next  string      `json:"next,omitzero"`
}

func (a *API) events(ctx context.Context, x *exchange) (eventList, error) {
	after, limit, err := x.page()
	if err != nil {
		return eventList{}, err
	}
	from := int64(0)
	if after != "" {
		if from, err = strconv.ParseInt(after, 10, 64); err != nil || from < 0 {
			return eventList{}, malformed("after", "it must be the place of an event")
		}
	}
	list, err := a.o.LogStore.Events(ctx, x.principal.Tenant, from, limit)
	if err != nil {
		return eventList{}, err
	}
	out := eventList{Items: make([]eventItem, 0, len(list))}
	for _, e := range list {
		out.Items = append(out.Items, eventItem{e.Sequence, e.At, hex.EncodeToString(e.Leaf[:]), e.Body})
	}
	if len(list) == limit {
		out.Next = strconv.FormatInt(list[limit-1].Sequence, 10)
	}
	return out, nil
}

// latest returns the newest checkpoint of the caller's log.
func (a *API) latest(ctx context.Context, x *exchange) (*counterfoil.Checkpoint, error) {
	c, err := a.o.Logs.Latest(ctx, x.principal.Tenant)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, refuse(codeNotFound, "the log has no checkpoint yet")
	}
	return c, nil
}

func (a *API) checkpoint(x *exchange) (*reply, error) {
	c, err := a.latest(x.r.Context(), x)
	if err != nil {
		return nil, err
	}
	return &reply{status: http.StatusOK, kind: "text/plain; charset=utf-8", body: c.Note()}, nil
}

func (a *API) tiles(x *exchange) (*reply, error) {
	a.o.Logs.Serve(x.w, x.r, x.principal.Tenant, x.r.PathValue("part"))
	return &reply{sent: true, status: http.StatusOK}, nil
}

// proofAnswer proves that an event is a leaf of the log under a checkpoint.
type proofAnswer struct {
	Checkpoint string   `json:"checkpoint"` // a signed note
	Event      rawJSON  `json:"event"`
	Index      int64    `json:"index"`
	Path       []string `json:"path"` // audit path of RFC 6962, in hexadecimal, from the leaf up
}

func (a *API) proof(ctx context.Context, x *exchange) (proofAnswer, error) {
	about, err := x.text("about")
	if err != nil {
		return proofAnswer{}, err
	}
	phase, err := x.text("phase")
	if err != nil {
		return proofAnswer{}, err
	}
	if about == "" || phase == "" {
		return proofAnswer{}, malformed("", "say about what, and which phase")
	}
	c, list, err := a.o.Logs.Prove(ctx, x.principal.Tenant, translog.Mention{About: about, Phase: counterfoil.Phase(phase)})
	if err != nil {
		return proofAnswer{}, err
	}
	if len(list) != 1 {
		return proofAnswer{}, translog.ErrNotLogged
	}
	return proofAnswer{string(c.Note()), list[0].Event, list[0].Index, hexes(list[0].Path)}, nil
}

// consistencyAnswer proves that a log only grew.
type consistencyAnswer struct {
	Checkpoint string   `json:"checkpoint"`
	From       int64    `json:"from"`
	Path       []string `json:"path"`
}

func (a *API) consistency(ctx context.Context, x *exchange) (consistencyAnswer, error) {
	from, err := strconv.ParseInt(x.query.Get("from"), 10, 64)
	if err != nil || from < 1 {
		return consistencyAnswer{}, malformed("from", "it must be the size of an older checkpoint")
	}
	c, err := a.latest(ctx, x)
	if err != nil {
		return consistencyAnswer{}, err
	}
	if from > c.Size() {
		return consistencyAnswer{}, malformed("from", "the log is not that large")
	}
	c, path, err := a.o.Logs.Consistency(ctx, x.principal.Tenant, from)
	if err != nil {
		return consistencyAnswer{}, err
	}
	return consistencyAnswer{string(c.Note()), from, hexes(path)}, nil
}

func hexes(path [][32]byte) []string {
	out := make([]string, len(path))
	for i := range path {
		out[i] = hex.EncodeToString(path[i][:])
	}
	return out
}

// export writes the log as it reads it. A fault in the middle cuts the connection: a short export can't be taken for whole.
func (a *API) export(x *exchange) (*reply, error) {
	format := translog.FormatLines
	switch s := x.query.Get("format"); s {
	case "", string(translog.FormatLines):
	case string(translog.FormatCSV):
		format = translog.FormatCSV
	default:
		return nil, malformed("format", "it must be jsonl or csv")
	}
	ctx := x.r.Context()
	c, err := a.latest(ctx, x)
	if err != nil {
		return nil, err
	}
	kind := "application/jsonl"
	if format == translog.FormatCSV {
		kind = "text/csv; charset=utf-8"
	}
	x.w.Header().Set("Content-Type", kind)
	err = translog.Export(ctx, x.w, translog.ExportParams{
		Store: a.o.LogStore, Tenant: x.principal.Tenant, Audience: a.o.Audience, Checkpoint: c, Format: format,
	})
	if err == nil {
		return &reply{sent: true, status: http.StatusOK}, nil
	}
	if rec, ok := x.w.(*recorder); ok && rec.status != 0 {
		panic(http.ErrAbortHandler) // net/http's own way to cut a connection
	}
	return nil, err
}
