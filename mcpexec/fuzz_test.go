package mcpexec_test

import (
	"encoding/json"
	"testing"

	"github.com/counterfoil/counterfoil/mcpexec"
)

// FuzzResult: what is not one object is nothing, and another reader of the same bytes sees the same kind.
func FuzzResult(f *testing.F) {
	for _, s := range []string{
		answer, `{"isError":true}`, `{"resultType":"complete"}`, `{"resultType":"task","isError":true}`, `{"isError":null}`, `{"is\u0045rror":true}`, `[]`, ` {} `, `{}{}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, result []byte) {
		got, err := mcpexec.Judge(result)
		if (got == "") != (err != nil) {
			t.Fatalf("%q: %q, %v", result, got, err)
		}
		if err != nil {
			return
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(result, &members); err != nil {
			t.Fatalf("%q: %q, but %v", result, got, err)
		}
		want := "answer"
		if string(members["isError"]) == "true" {
			want = "report"
		}
		if kind, ok := members["resultType"]; ok {
			var s string
			if json.Unmarshal(kind, &s) != nil || s != "complete" {
				want = "unfinished"
			}
		}
		if got != want {
			t.Fatalf("%q: %q, want %q", result, got, want)
		}
	})
}
