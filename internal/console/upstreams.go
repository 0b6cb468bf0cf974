package console

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/counterfoil/counterfoil/internal/console/show"
)

// upstreamRow is a server in the list.
type upstreamRow struct {
	Href, Name, Status string
	ID                 digest
	Tools, Open        int // all tools, and those that wait to be classified
}

func (c *Console) upstreams(x *exchange) error {
	list, err := c.service.Upstreams(x.r.Context())
	if err != nil {
		return err
	}
	rows := make([]upstreamRow, 0, len(list))
	for _, u := range list {
		r := upstreamRow{Href: link("/upstreams/", u.ID), Name: cell(u.Name), Status: cell(u.Status), ID: shorten(u.ID), Tools: len(u.Tools)}
		for _, t := range u.Tools {
			if t.Status != "active" {
				r.Open++
			}
		}
		rows = append(rows, r)
	}
	return c.render(x, http.StatusOK, "upstreams", frame{Title: "Servers", Nav: "upstreams"}, rows)
}

// toolRow is a tool on the page where a server's tools are classified.
type toolRow struct {
	Field       string // name of its form field
	Label       string
	Name        []show.Segment
	Description []show.Segment
	Status      string
	Effect      string
	Choice      string // the effect that is filled in
	Why         []show.Segment
	Digest      digest
	Definition  *node
	Changes     []diffLine
}

// upstreamView is the body of that page.
type upstreamView struct {
	Href, Status string
	Name         []show.Segment
	ID           digest
	Identity     *node
	Digest       string
	Tools        []toolRow
	Menu         []menuGroup
	Warnings     []string
	Refused      string
	Problem      string
	Count        string
}

type menuGroup struct {
	Label   string
	Effects []effect
}

// menu returns the effects by class.
func menu() []menuGroup {
	var groups []menuGroup
	for _, e := range effects() {
		if len(groups) == 0 || groups[len(groups)-1].Label != e.Class {
			groups = append(groups, menuGroup{Label: e.Class})
		}
		g := &groups[len(groups)-1]
		g.Effects = append(g.Effects, e)
	}
	return groups
}

func (c *Console) upstreamByID(ctx context.Context, id string) (Upstream, error) {
	list, err := c.service.Upstreams(ctx)
	if err != nil {
		return Upstream{}, err
	}
	i := slices.IndexFunc(list, func(u Upstream) bool { return u.ID == id })
	if i < 0 {
		return Upstream{}, ErrNotFound
	}
	return list[i], nil
}

func (c *Console) upstream(x *exchange) error {
	u, err := c.upstreamByID(x.r.Context(), x.id)
	if err != nil {
		return err
	}
	return c.upstreamPage(x, http.StatusOK, newUpstreamView(u), "")
}

func (c *Console) upstreamPage(x *exchange, status int, v *upstreamView, problem string) error {
	v.Problem = problem
	return c.render(x, status, "upstream", frame{Title: "Server", Nav: "upstreams"}, v)
}

func newUpstreamView(u Upstream) *upstreamView {
	v := &upstreamView{Href: link("/upstreams/", u.ID), Status: cell(u.Status), Name: show.Text(u.Name), ID: shorten(u.ID), Digest: u.Digest,
		Menu: menu(), Count: count(len(u.Tools), "tool")}
	total := 0
	for _, t := range u.Tools {
		total += len(t.Definition) + len(t.Pinned)
	}
	if total > maxTotal {
		v.Refused = "The definitions are larger than 2 MiB. They can't be shown in full here, so they can't be classified here."
		return v
	}
	if u.Digest == "" {
		v.Refused = "There is no digest of the tools to decide on."
	}
	notes := &tally{notes: map[string]int{}}
	if tree, _, err := buildTree(u.Identity, false); err == nil {
		v.Identity = tree
	}
	for i, t := range u.Tools {
		v.Tools = append(v.Tools, newToolRow(t, i, notes))
	}
	v.Warnings = notes.warnings()
	return v
}

func newToolRow(t Tool, i int, notes *tally) toolRow {
	r := toolRow{Field: "effect." + strconv.Itoa(i), Label: show.Plain(t.Name), Name: show.Text(t.Name), Status: cell(t.Status),
		Effect: cell(t.Effect), Choice: effectNamed(t.Suggested).Name, Why: show.Text(t.Why), Digest: shorten(t.DefinitionDigest)}
	if !isEffect(r.Choice) {
		r.Choice = classDestructive
	}
	notes.see(r.Name)
	tree, seen, err := buildTree(t.Definition, false)
	if err == nil && tree != nil {
		r.Definition = tree
		r.Description = description(tree)
		for note, n := range seen.notes {
			notes.notes[note] += n
		}
	}
	if len(t.Pinned) > 0 {
		r.Changes = diff(t.Pinned, t.Definition)
	}
	return r
}

// description returns the description member of a tool's definition.
func description(def *node) []show.Segment {
	for _, kid := range def.Kids {
		if plainText(kid.Name) == "description" && kid.Kind == "string" {
			return kid.Text
		}
	}
	return nil
}

func isEffect(name string) bool {
	return slices.ContainsFunc(effects(), func(e effect) bool { return e.Name == name })
}

// classify takes the one decision over all tools of a server. It is a change of policy, so the passphrase is asked for.
func (c *Console) classify(x *exchange) error {
	u, err := c.upstreamByID(x.r.Context(), x.id)
	if err != nil {
		return err
	}
	v := newUpstreamView(u)
	if x.field("shown") != u.Digest {
		return &Conflict{}
	}
	if v.Refused != "" {
		return c.upstreamPage(x, http.StatusUnprocessableEntity, v, v.Refused)
	}
	chosen := make(map[string]string, len(u.Tools))
	for i, t := range u.Tools {
		e := x.field(v.Tools[i].Field)
		if !isEffect(e) {
			return c.upstreamPage(x, http.StatusUnprocessableEntity, v, "Choose an effect for every tool.")
		}
		v.Tools[i].Choice = e
		chosen[t.Name] = e
	}
	if len(chosen) != len(u.Tools) {
		return c.upstreamPage(x, http.StatusUnprocessableEntity, v, "Two tools have the same name. They can't be classified.")
	}
	key, err := c.signer(x, true)
	if err != nil {
		if text := passphraseProblem(err); text != "" {
			return c.upstreamPage(x, http.StatusForbidden, v, text)
		}
		return err
	}
	if err := c.service.Classify(x.r.Context(), u.ID, chosen, u.Digest, key); err != nil {
		return err
	}
	x.redirect(v.Href)
	return nil
}
