package console_test

import (
	"encoding/base64"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil/internal/console"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

var update = flag.Bool("update", false, "write the golden pages anew")

// gallery is a desk with one of everything: it is what the golden pages and the browser look at.
func gallery(t *testing.T) *desk {
	t.Helper()
	write := ask("apr-7h2k", "write_file", "mutation", canonical(t, `{"path":"/work/notes/todo.md","content":"# Today\n\n- water the plants\n\t- the fern too\n- call Zoë\n","mode":420,"overwrite":true,"tags":[],"owner":null}`))
	wipe := ask("apr-9q4m", "delete_directory", "destructive", canonical(t, `{"path":"/work/build","recursive":true}`))
	wipe.Findings = []gateway.Finding{{Pattern: "path outside the usual ones", Severity: "medium", Pointer: "/path"}}
	lure := ask("apr-x3zz", "send_message", "share", canonical(t, `{"to":"pay@p\u0430ypal.test","body":"Invoice \u202egpj.exe\u200b attached, caf\u0065\u0301","note":"fine\udb40\udc72\udb40\udc6d\udb40\udc20\udb40\udc2d\udb40\udc72","greeting":"\u05e9\u05dc\u05d5\u05dd 42"}`))
	lure.Requester, lure.UpstreamName = "agent:mail-helper", "https://mail.example.test/mcp"
	lure.Findings = []gateway.Finding{{Pattern: "hidden text", Severity: "high", Pointer: "/note"}, {Pattern: "mixed scripts", Severity: "medium", Pointer: "/to"}}
	long := ask("apr-long", "run_script", "mutation", canonical(t, `{"script":`+quoted("#!/bin/sh\nset -eu\n"+strings.Repeat("# housekeeping, nothing to see\n", 180)+strings.Repeat("\n", 500)+"rm -rf \"$HOME/.cache\"\n")+`}`))
	long.CreatedAt, long.ExpiresAt = start().Add(-14*time.Minute), start().Add(45*time.Second)

	spent := ask("apr-0001", "write_file", "mutation", `{"path":"/work/a.txt"}`)
	spent.State, spent.DecidedBy, spent.DecidedAt, spent.Reason = gateway.Spent, "person:ada", start().Add(-30*time.Minute), "asked for in the meeting"
	spent.Receipt, spent.Outcome = "rcp-0001", "completed"
	denied := ask("apr-0002", "delete_file", "destructive", `{"path":"/work/a.txt"}`)
	denied.State, denied.DecidedBy, denied.DecidedAt, denied.Reason = gateway.Denied, "person:ada", start().Add(-3*time.Hour), "keep it until Friday"
	void := ask("apr-0003", "move_file", "mutation", `{}`)
	void.State, void.VoidCause = gateway.Void, "definition"

	d := newDesk(t, wipe, write, long, lure, spent, denied, void)
	d.service.upstreams = append(workshop(t).service.upstreams, console.Upstream{ID: "u-2", Name: "https://mail.example.test/mcp", Status: "active", Digest: hash("mail"),
		Tools: []console.Tool{{Name: "send_message", Status: "active", Effect: "share", Suggested: "share"}}})
	d.service.receipts = []console.Receipt{
		{ID: "rcp-0001", Approval: "apr-0001", UpstreamName: spent.UpstreamName, Tool: "write_file", Effect: "mutation", Outcome: "completed", At: start().Add(-29 * time.Minute)},
		{ID: "rcp-0000", Approval: "apr-0003", Tool: "move_file", Outcome: "indeterminate", At: start().Add(-time.Hour)},
		{ID: hash("receipt"), UpstreamName: spent.UpstreamName, Tool: "read_file", Effect: "read", Outcome: "completed", At: start().Add(-50 * time.Hour)},
	}
	payload := base64.StdEncoding.EncodeToString([]byte(`{"kind":"counterfoil.receipt","outcome":"completed","tool":"write_file"}`))
	d.service.bundles["rcp-0001"] = []byte(`{"receipt":{"payload":"` + payload + `","payloadType":"application/vnd.counterfoil.receipt.v1+json","signatures":[{"keyid":"k","sig":"c2ln"}]}}`)
	return d
}

func galleryPages() map[string]string {
	return map[string]string{
		"home": "/", "decided": "/decided", "approval": "/approvals/apr-7h2k", "destructive": "/approvals/apr-9q4m", "marks": "/approvals/apr-x3zz",
		"long": "/approvals/apr-long", "spent": "/approvals/apr-0001", "denied": "/approvals/apr-0002", "void": "/approvals/apr-0003",
		"upstreams": "/upstreams", "upstream": "/upstreams/u-1", "receipts": "/receipts", "receipt": "/receipts/rcp-0001",
		"login": "/login?code=c0de", "code": "/login", "missing": "/nowhere",
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	pages := map[string]string{}
	d := gallery(t)
	for name, path := range galleryPages() {
		pages[name] = d.get(path).Body.String()
	}
	pages["problem"] = d.decide("apr-9q4m", "approve", "wrong").Body.String()
	late := d.form("/approvals/apr-7h2k", "/approvals/apr-7h2k/deny")
	d.service.approvals[1].State = gateway.Approved
	pages["conflict"] = d.do(d.request("POST", "/approvals/apr-7h2k/deny", late)).Body.String()
	d.service.approvals[1].State = gateway.Pending
	d.decide("apr-7h2k", "deny", passphrase)
	pages["unlocked"] = d.page("/approvals/apr-x3zz")
	d.service.approvals, d.service.upstreams, d.service.receipts = nil, nil, nil
	for name, path := range map[string]string{"home-empty": "/", "decided-empty": "/decided", "upstreams-empty": "/upstreams", "receipts-empty": "/receipts"} {
		pages[name] = d.page(path)
	}
	d.cookie = ""
	pages["signed-out"] = d.get("/").Body.String()

	for name, got := range pages {
		file := filepath.Join("testdata", name+".html")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
