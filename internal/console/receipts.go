package console

import (
	"net/http"

	"github.com/counterfoil/counterfoil/internal/console/show"
)

// receiptRow is a receipt in the list.
type receiptRow struct {
	Href, Tool, Upstream, Outcome string
	Effect                        effect
	ID                            digest
	At                            moment
	ApprovalHref                  string
}

type receiptsView struct {
	Rows  []receiptRow
	Next  string
	First bool
}

func (c *Console) receipts(x *exchange) error {
	after, err := x.cursor()
	if err != nil {
		return err
	}
	list, next, err := c.service.Receipts(x.r.Context(), after, pageRows)
	if err != nil {
		return err
	}
	v := receiptsView{Next: onward("/receipts", next), First: after == ""}
	for _, r := range list[:min(len(list), pageRows)] {
		row := receiptRow{Href: link("/receipts/", r.ID), Tool: cell(r.Tool), Upstream: cell(r.UpstreamName), Outcome: cell(r.Outcome),
			Effect: effectNamed(r.Effect), ID: shorten(r.ID), At: x.moment(r.At)}
		if r.Approval != "" {
			row.ApprovalHref = link("/approvals/", r.Approval)
		}
		v.Rows = append(v.Rows, row)
	}
	return c.render(x, http.StatusOK, "receipts", frame{Title: "Receipts", Nav: "receipts"}, v)
}

type receiptView struct {
	Href  string
	ID    digest
	Size  string
	Tree  *node
	Exact []show.Segment
}

func (c *Console) receipt(x *exchange) error {
	doc, err := c.service.Receipt(x.r.Context(), x.id)
	if err != nil {
		return err
	}
	v := receiptView{Href: link("/receipts/", x.id), ID: shorten(x.id), Size: count(len(doc), "byte")}
	if len(doc) <= maxTotal {
		if v.Tree, _, err = buildTree(doc, true); err != nil {
			v.Exact = show.Text(string(doc))
		}
	}
	return c.render(x, http.StatusOK, "receipt", frame{Title: "Receipt", Nav: "receipts"}, v)
}

// bundle sends a receipt's evidence as a file, for counterfoil-verify.
func (c *Console) bundle(x *exchange) error {
	doc, err := c.service.Receipt(x.r.Context(), x.id)
	if err != nil {
		return err
	}
	x.attach("bundle.json", "application/json", doc)
	return nil
}
