package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil/internal/identity"
)

const callSend = "/v1/tools/files.send/call"

// A call is asked about, approved by a person, runs once, and leaves a receipt that verifies.
func TestCall_approved(t *testing.T) {
	t.Parallel()
	w := setup(t)
	bot := w.agent("tools:*")
	body := `{"arguments":{"to":"planted-argument"}}`
	a := w.want(http.StatusAccepted, "POST", callSend, bot, body)
	var p struct {
		Approval string `json:"approval"`
		URL      string `json:"url"`
	}
	a.into(t, &p)
	if p.URL != address+"/v1/approvals/"+p.Approval || a.header.Get("Location") != "/v1/approvals/"+p.Approval || a.header.Get("Retry-After") == "" {
		t.Fatalf("%v %v", a, a.header)
	}
	one := "/v1/approvals/" + p.Approval
	ada := w.ada("approvals:*", "receipts:read", "audit:read")
	if a = w.want(200, "GET", one, ada, ""); !strings.Contains(a.body, "planted-argument") {
		t.Fatalf("the approver does not see the arguments: %v", a)
	}
	if a = w.want(200, "GET", "/v1/approvals?state=pending", ada, ""); strings.Contains(a.body, "planted-argument") || !strings.Contains(a.body, p.Approval) {
		t.Fatalf("the list: %v", a)
	}
	// Another tenant's object is not there.
	eve := w.as(umbrella, identity.KindPerson, "eve", "admin", "approvals:*")
	for _, x := range [][3]string{{"GET", one, ""}, {"POST", one + "/approve", `{"passphrase":"` + passphrase + `"}`}, {"POST", one + "/deny", `{"passphrase":"x"}`}} {
		if a := w.want(404, x[0], x[1], eve, x[2]); a.code(t) != "not-found" {
			t.Fatal(a)
		}
	}
	if a = w.want(403, "POST", one+"/approve", ada, `{"passphrase":"wrong-passphrase"}`); a.code(t) != "passphrase-wrong" {
		t.Fatal(a)
	}
	if a = w.want(409, "POST", one+"/approve", ada, `{"passphrase":"`+passphrase+`","signs":"sha256:0"}`); a.code(t) != "conflict" {
		t.Fatal(a)
	}
	if a = w.want(200, "POST", one+"/approve", ada, `{"passphrase":"`+passphrase+`","reason":"fine"}`); !strings.Contains(a.body, `"state":"approved"`) {
		t.Fatal(a)
	}
	if a = w.want(409, "POST", one+"/deny", ada, `{"passphrase":"`+passphrase+`"}`); a.code(t) != "conflict" || !strings.Contains(a.body, `"state":"approved"`) {
		t.Fatal(a)
	}
	var r struct {
		Receipt string `json:"receipt"`
	}
	w.want(200, "POST", callSend, bot, body).into(t, &r)
	if w.up.effects() != 1 || r.Receipt == "" {
		t.Fatalf("%d effects, receipt %q", w.up.effects(), r.Receipt)
	}
	receipt := "/v1/receipts/" + r.Receipt
	if a = w.want(200, "GET", receipt, ada, ""); !strings.Contains(a.body, `"outcome":"succeeded"`) {
		t.Fatal(a)
	}
	bundle := w.want(200, "GET", receipt+"/bundle", ada, "")
	w.want(200, "POST", "/v1/receipts/verify", ada, bundle.body)
	w.want(404, "GET", receipt, w.as(umbrella, identity.KindPerson, "eve", "receipts:*"), "")
	w.want(422, "POST", "/v1/receipts/verify", w.as(umbrella, identity.KindPerson, "eve", "receipts:*"), bundle.body)
	if a = w.want(422, "POST", "/v1/receipts/verify", ada, strings.Replace(bundle.body, "send", "sent", 1)); a.code(t) == "internal" {
		t.Fatal(a)
	}
	if a = w.want(200, "GET", "/v1/receipts", ada, ""); !strings.Contains(a.body, r.Receipt) {
		t.Fatal(a)
	}
	must(t, w.opts.Logs.Publish(t.Context()))
	w.audit(ada, r.Receipt)
	for _, secret := range []string{"planted-argument", passphrase, "wrong-passphrase", bot, ada} {
		if strings.Contains(w.log.String(), secret) {
			t.Errorf("the log has %q", secret)
		}
	}
	for _, want := range []string{`"approval":"` + p.Approval, `"receipt":"` + r.Receipt, `"route":"/v1/tools/{tool}/call"`, `"principal":"agent:bot"`, `"tenant":"acme"`} {
		if !strings.Contains(w.log.String(), want) {
			t.Errorf("the log lacks %q: %s", want, w.log)
		}
	}
}

func (w *world) audit(token, execution string) {
	t := w.t
	if a := w.want(200, "GET", "/v1/audit/checkpoint", token, ""); !strings.HasPrefix(a.body, w.keys.Audience()) && len(a.body) < 50 {
		t.Fatal(a)
	}
	if a := w.want(200, "GET", "/v1/audit/events?limit=2", token, ""); !strings.Contains(a.body, `"next":"2"`) {
		t.Fatal(a)
	}
	w.want(200, "GET", "/v1/audit/events?after=2", token, "")
	w.want(200, "GET", "/v1/audit/proof?phase=completed&about="+execution, token, "")
	if a := w.want(404, "GET", "/v1/audit/proof?phase=completed&about=none", token, ""); a.code(t) != "not-found" {
		t.Fatal(a)
	}
	w.want(200, "GET", "/v1/audit/consistency?from=1", token, "")
	w.want(400, "GET", "/v1/audit/consistency?from=100000", token, "")
	if a := w.want(200, "GET", "/v1/audit/export", token, ""); strings.Count(a.body, "\n") < 3 {
		t.Fatal(a)
	}
	w.want(200, "GET", "/v1/audit/export?format=csv", token, "")
	w.want(404, "GET", "/v1/audit/log/x/checkpoint", token, "")
}

// Prefer: wait holds the call until the decision comes.
func TestCall_waits(t *testing.T) {
	t.Parallel()
	w := setup(t)
	done := make(chan answer, 1)
	go func() {
		done <- w.send("POST", callSend, w.agent("tools:*"), `{"arguments":{}}`, "Prefer", "respond-async, wait=50")
	}()
	id := ""
	for id == "" {
		var list struct {
			Items []struct {
				ID string `json:"id"`
			} `json:"items"`
		}
		w.want(200, "GET", "/v1/approvals?state=pending", w.ada("approvals:read"), "").into(t, &list)
		if len(list.Items) == 1 {
			id = list.Items[0].ID
		}
		time.Sleep(5 * time.Millisecond)
	}
	w.want(200, "POST", "/v1/approvals/"+id+"/approve", w.ada("approvals:decide"), `{"passphrase":"`+passphrase+`"}`)
	if a := <-done; a.status != 200 || w.up.effects() != 1 {
		t.Fatal(a)
	}
}

func TestCall_rejects(t *testing.T) {
	t.Parallel()
	w := setup(t)
	bot := w.agent("tools:*")
	for name, x := range map[string]struct {
		target, body string
		headers      []string
		status       int
		code         string
	}{
		"no such tool":        {target: "/v1/tools/files.nothing/call", body: `{}`, status: 403, code: "denied_by_policy"},
		"no such upstream":    {target: "/v1/tools/none.send/call", body: `{}`, status: 404, code: "not-found"},
		"no upstream named":   {target: "/v1/tools/send/call", body: `{}`, status: 404, code: "not-found"},
		"duplicate name":      {target: callSend, body: `{"arguments":{},"arguments":{}}`, status: 400, code: "invalid-input"},
		"duplicate inside":    {target: callSend, body: `{"arguments":{"a":1,"a":2}}`, status: 400, code: "invalid-input"},
		"unknown member":      {target: callSend, body: `{"argument":{}}`, status: 400, code: "invalid-input"},
		"other letter case":   {target: callSend, body: `{"Arguments":{}}`, status: 400, code: "invalid-input"},
		"data behind":         {target: callSend, body: `{} {}`, status: 400, code: "invalid-input"},
		"bad UTF-8":           {target: callSend, body: "{\"arguments\":{\"a\":\"\xff\"}}", status: 400, code: "invalid-input"},
		"deep":                {target: callSend, body: `{"arguments":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, status: 400, code: "invalid-input"},
		"not an object":       {target: callSend, body: `{"arguments":[]}`, status: 422, code: "invalid_params"},
		"a number too large":  {target: callSend, body: `{"arguments":{"n":1e400}}`, status: 422, code: "invalid_params"},
		"a wait that is none": {target: callSend, body: `{}`, headers: []string{"Prefer", "wait=soon"}, status: 400, code: "invalid-input"},
		"no JSON":             {target: callSend, body: `{}`, headers: []string{"Content-Type", "text/plain"}, status: 415, code: "unsupported-media-type"},
		"another charset":     {target: callSend, body: `{}`, headers: []string{"Content-Type", "application/json; charset=utf-7"}, status: 415, code: "unsupported-media-type"},
		"an encoding":         {target: callSend, body: `{}`, headers: []string{"Content-Encoding", "gzip"}, status: 415, code: "unsupported-encoding"},
		"a key in the query":  {target: callSend + "?api_key=x", body: `{}`, status: 400},
		"two credentials":     {target: callSend, body: `{}`, headers: []string{"X-API-Key", "cfk_x"}, status: 400, code: "credential-ambiguous"},
	} {
		a := w.send("POST", x.target, bot, x.body, x.headers...)
		if c := a.code(t); a.status != x.status || x.code != "" && c != x.code {
			t.Errorf("%s: %v", name, a)
		}
	}
	if w.up.effects() != 0 {
		t.Fatal("something ran")
	}
}
