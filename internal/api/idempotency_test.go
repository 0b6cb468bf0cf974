package api_test

import (
	"strings"
	"testing"
)

// approveAll approves what waits.
func (w *world) approveAll() {
	w.t.Helper()
	var list struct {
		Items []struct {
			ID string `json:"id"`
		} `json:"items"`
	}
	w.want(200, "GET", "/v1/approvals?state=pending", w.ada("approvals:read"), "").into(w.t, &list)
	for _, x := range list.Items {
		w.want(200, "POST", "/v1/approvals/"+x.ID+"/approve", w.ada("approvals:decide"), `{"passphrase":"`+passphrase+`"}`)
	}
}

// One key is one call, however often it comes; another body under it is refused; another principal's key is another.
func TestIdempotency(t *testing.T) {
	t.Parallel()
	w := setup(t)
	bot, body := w.agent("tools:*"), `{"arguments":{"n":1}}`
	w.want(202, "POST", callSend, bot, body, "Idempotency-Key", "k1") // nothing ran: it may come again
	w.approveAll()
	first := w.want(200, "POST", callSend, bot, body, "Idempotency-Key", "k1")
	again := w.want(200, "POST", callSend, bot, body, "Idempotency-Key", "k1")
	if w.up.effects() != 1 || first.body != again.body || again.header.Get("Idempotency-Replayed") != "true" {
		t.Fatalf("%d effects: %v, %v", w.up.effects(), first, again)
	}
	for name, a := range map[string]answer{
		"another body": w.send("POST", callSend, bot, `{"arguments":{"n":2}}`, "Idempotency-Key", "k1"),
		"another tool": w.send("POST", "/v1/tools/files.other/call", bot, body, "Idempotency-Key", "k1"),
	} {
		if a.status != 422 || a.code(t) != "idempotency-key-reused" {
			t.Errorf("%s: %v", name, a)
		}
	}
	for name, key := range map[string]string{"empty": "", "long": strings.Repeat("k", 256), "not ASCII": "\u00e9"} {
		if a := w.send("POST", callSend, bot, body, "Idempotency-Key", key); a.status != 422 || a.code(t) != "invalid-input" {
			t.Errorf("%s: %v", name, a)
		}
	}
	w.want(202, "POST", callSend, w.as(acme, "agent", "other", "tools:*"), body, "Idempotency-Key", "k1")
	if w.up.effects() != 1 {
		t.Fatal("it ran again")
	}
}
