package console

import (
	"context"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/counterfoil/counterfoil/internal/gateway"
)

// The lengths of lists.
const (
	pageRows   = 50
	recentRows = 10
)

// A row is a request in a list. It has no arguments: a list is seen over shoulders and in screenshots.
type row struct {
	ID, Href  string
	Tool      string
	Upstream  string
	Requester string
	Effect    effect
	State     string
	Findings  int
	Created   moment
	Expires   moment
	Decided   moment
	By        string
}

// A group is the rows of one requester and server, in the order in which they came.
type group struct {
	Requester, Upstream string
	Rows                []row
}

func (x *exchange) row(a gateway.Approval) row {
	return row{
		ID: a.ID, Href: link("/approvals/", a.ID), Tool: cell(a.Tool), Upstream: cell(a.UpstreamName), Requester: cell(a.Requester),
		Effect: effectNamed(a.Effect), State: stateWord(stateAt(a, x.now)), Findings: len(a.Findings),
		Created: x.moment(a.CreatedAt), Expires: x.moment(a.ExpiresAt), Decided: x.moment(a.DecidedAt), By: cell(a.DecidedBy),
	}
}

func (x *exchange) rows(list []gateway.Approval) []row {
	rows := make([]row, 0, len(list))
	for _, a := range list {
		rows = append(rows, x.row(a))
	}
	return rows
}

// grouped gathers the rows of the same requester and server, so that many of one can't hide the few of another.
func grouped(rows []row) []group {
	var groups []group
	at := map[[2]string]int{}
	for _, r := range rows {
		key := [2]string{r.Requester, r.Upstream}
		i, ok := at[key]
		if !ok {
			i = len(groups)
			at[key] = i
			groups = append(groups, group{Requester: r.Requester, Upstream: r.Upstream})
		}
		groups[i].Rows = append(groups[i].Rows, r)
	}
	return groups
}

// stateAt returns where a request stands at a time: one whose end has come is expired, whether it was swept or not.
func stateAt(a gateway.Approval, now time.Time) gateway.State {
	if a.State == gateway.Pending && !now.Before(a.ExpiresAt) {
		return gateway.Expired
	}
	return a.State
}

// stateWord returns a state in words.
func stateWord(s gateway.State) string {
	switch s {
	case gateway.Pending:
		return "waiting for you"
	case gateway.Approved:
		return "approved, not yet run"
	case gateway.Spent:
		return "approved and run"
	case gateway.Denied, gateway.Expired, gateway.Cancelled, gateway.Void:
		return string(s)
	}
	return "unknown"
}

// homeView is the body of the start page.
type homeView struct {
	Groups  []group
	Shown   int
	Next    string // address of the next page
	First   bool   // this is the first page
	Decided []row
}

func (c *Console) home(x *exchange) error {
	after, err := x.cursor()
	if err != nil {
		return err
	}
	list, next, err := c.list(x.r.Context(), "pending", after, pageRows)
	if err != nil {
		return err
	}
	v := homeView{Groups: grouped(x.rows(list)), Shown: len(list), Next: onward("/", next), First: after == ""}
	if v.First {
		recent, _, err := c.list(x.r.Context(), "decided", "", recentRows)
		if err != nil {
			return err
		}
		v.Decided = x.rows(recent)
	}
	title := "Requests"
	if len(list) > 0 {
		title = count(len(list), "request") + " waiting"
	}
	return c.render(x, http.StatusOK, "home", frame{Title: title, Nav: "requests", Live: true}, v)
}

type decidedView struct {
	Rows  []row
	Next  string
	First bool
}

func (c *Console) decided(x *exchange) error {
	after, err := x.cursor()
	if err != nil {
		return err
	}
	list, next, err := c.list(x.r.Context(), "decided", after, pageRows)
	if err != nil {
		return err
	}
	v := decidedView{Rows: x.rows(list), Next: onward("/decided", next), First: after == ""}
	return c.render(x, http.StatusOK, "decided", frame{Title: "Decided requests", Nav: "requests"}, v)
}

// list asks the service for a part of a list and never shows more than was asked for.
func (c *Console) list(ctx context.Context, state, after string, limit int) ([]gateway.Approval, string, error) {
	list, next, err := c.service.Approvals(ctx, state, after, limit)
	if err != nil {
		return nil, "", err
	}
	return list[:min(len(list), limit)], next, nil
}

// apiRow is a request as the page's own script sees it.
type apiRow struct {
	ID      string    `json:"id"`
	Tool    string    `json:"tool"`
	Effect  string    `json:"effect"`
	Expires time.Time `json:"expires"`
}

// apiApprovals answers with the first pending requests, for the page's script. There is no other state to ask for.
func (c *Console) apiApprovals(x *exchange) error {
	if x.r.URL.RawQuery != "state=pending" {
		return ErrNotFound
	}
	list, next, err := c.list(x.r.Context(), "pending", "", pageRows)
	if err != nil {
		return err
	}
	out := struct {
		Approvals []apiRow `json:"approvals"`
		More      bool     `json:"more"`
	}{make([]apiRow, 0, len(list)), next != ""}
	for _, a := range list {
		out.Approvals = append(out.Approvals, apiRow{a.ID, cell(a.Tool), effectNamed(a.Effect).Name, a.ExpiresAt})
	}
	body, err := json.Marshal(out)
	if err != nil {
		return err
	}
	x.send(http.StatusOK, "application/json", body)
	return nil
}
