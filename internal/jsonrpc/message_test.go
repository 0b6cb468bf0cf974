package jsonrpc_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

func TestParse_ids(t *testing.T) {
	t.Parallel()
	good := []string{`"1"`, `1`, `"init-1"`, `""`, `0`, `-7`, `9007199254740993`, `"\ud83d\ude00"`, `"😀"`, strings.Repeat("9", 40)}
	for _, id := range good {
		m, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":`+id+`,"method":"m"}`), 1<<20)
		if err != nil {
			t.Errorf("id %s: %v", id, err)
			continue
		}
		if m.ID.String() != id {
			t.Errorf("id %s came back as %s", id, m.ID)
		}
		if got, want := string(jsonrpc.NewResult(m.ID, []byte(`{}`))), `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`; got != want {
			t.Errorf("result is %s, want %s", got, want)
		}
	}
	bad := []string{`1.5`, `1e3`, `null`, `-0`, `1.0`, `true`, `{}`, `[]`, `[1]`, `"` + strings.Repeat("x", 2000) + `"`}
	for _, id := range bad {
		_, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":`+id+`,"method":"m"}`), 1<<20)
		if fe, ok := errors.AsType[*jsonrpc.FormError](err); !ok || fe.Number != jsonrpc.InvalidRequest {
			t.Errorf("id %.40s: error %v, want %d", id, err, jsonrpc.InvalidRequest)
		}
	}
}

func TestID_key(t *testing.T) {
	t.Parallel()
	key := func(s string) string {
		id, err := jsonrpc.ParseID([]byte(s))
		if err != nil {
			t.Fatal(err)
		}
		return id.Key()
	}
	if key(`"1"`) == key(`1`) {
		t.Error(`"1" and 1 are the same id`)
	}
	if key(`"\u0031"`) != key(`"1"`) {
		t.Error(`two spellings of "1" are two ids`)
	}
	if n, ok := jsonrpc.IntID(-7).Int(); n != -7 || !ok {
		t.Errorf("IntID(-7) is %d, %v", n, ok)
	}
}

func TestParse_rejects(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 65) + strings.Repeat("]", 65)
	rows := []struct {
		name   string
		in     string
		number int
	}{
		{"nothing", ``, jsonrpc.ParseError},
		{"text", `hello`, jsonrpc.ParseError},
		{"half", `{"jsonrpc":"2.0","id":1,"method":"m"`, jsonrpc.ParseError},
		{"trailing data", `{"jsonrpc":"2.0","id":1,"method":"m"} {}`, jsonrpc.ParseError},
		{"invalid utf-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\xff\"}", jsonrpc.ParseError},
		{"lone surrogate", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":"\ud800"}}`, jsonrpc.ParseError},
		{"byte order mark", "\ufeff" + `{"jsonrpc":"2.0","id":1,"method":"m"}`, jsonrpc.ParseError},
		{"break in a string", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"a\":\"x\ry\"}}", jsonrpc.ParseError},
		{"break in a name", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"a\nb\":1}}", jsonrpc.ParseError},
		{"scalar", `1`, jsonrpc.InvalidRequest},
		{"array", `[{"jsonrpc":"2.0","id":1,"method":"m"}]`, jsonrpc.InvalidRequest},
		{"no version", `{"id":1,"method":"m"}`, jsonrpc.InvalidRequest},
		{"version 1", `{"jsonrpc":"1.0","id":1,"method":"m"}`, jsonrpc.InvalidRequest},
		{"duplicate member", `{"jsonrpc":"2.0","id":1,"method":"m","method":"n"}`, jsonrpc.InvalidRequest},
		{"duplicate member deep", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[{"b":1,"\u0062":2}]}}`, jsonrpc.InvalidRequest},
		{"other letter case", `{"jsonrpc":"2.0","id":1,"method":"ping","METHOD":"tools/call"}`, jsonrpc.InvalidRequest},
		{"other letter case alone", `{"jsonrpc":"2.0","id":1,"method":"ping","Params":{}}`, jsonrpc.InvalidRequest},
		{"long s", `{"jsonrpc":"2.0","id":1,"method":"ping","param\u017f":{}}`, jsonrpc.InvalidRequest},
		{"control character", `{"jsonrpc":"2.0","id":1,"method":"ping","method\u0000":"x"}`, jsonrpc.InvalidRequest},
		{"too deep", `{"jsonrpc":"2.0","id":1,"method":"m","params":` + deep + `}`, jsonrpc.InvalidRequest},
		{"params are a string", `{"jsonrpc":"2.0","id":1,"method":"m","params":"x"}`, jsonrpc.InvalidRequest},
		{"params are null", `{"jsonrpc":"2.0","id":1,"method":"m","params":null}`, jsonrpc.InvalidRequest},
		{"method is a number", `{"jsonrpc":"2.0","id":1,"method":1}`, jsonrpc.InvalidRequest},
		{"method is empty", `{"jsonrpc":"2.0","id":1,"method":""}`, jsonrpc.InvalidRequest},
		{"request and response", `{"jsonrpc":"2.0","id":1,"method":"m","result":1}`, jsonrpc.InvalidRequest},
		{"result and error", `{"jsonrpc":"2.0","id":1,"result":1,"error":{}}`, jsonrpc.InvalidRequest},
		{"neither", `{"jsonrpc":"2.0","id":1}`, jsonrpc.InvalidRequest},
		{"response without id", `{"jsonrpc":"2.0","result":1}`, jsonrpc.InvalidRequest},
		{"error is a string", `{"jsonrpc":"2.0","id":1,"error":"x"}`, jsonrpc.InvalidRequest},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, err := jsonrpc.Parse([]byte(row.in), 1<<20)
			fe, ok := errors.AsType[*jsonrpc.FormError](err)
			if !ok || fe.Number != row.number {
				t.Fatalf("error %#v, want number %d", err, row.number)
			}
		})
	}
	if _, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"m"}`), 10); err == nil {
		t.Error("a message above the bound was accepted")
	}
}

func TestParse_bounds(t *testing.T) {
	t.Parallel()
	message := func(params string) []byte {
		return []byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":` + params + `}`)
	}
	// The outer object is one level, so 63 more are allowed.
	if _, err := jsonrpc.Parse(message(strings.Repeat("[", 63)+strings.Repeat("]", 63)), 1<<20); err != nil {
		t.Errorf("64 levels: %v", err)
	}
	many := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat("0,", n), ",") + "]" }
	if _, err := jsonrpc.Parse(message(many(999_000)), 16<<20); err != nil {
		t.Errorf("999,000 values: %v", err)
	}
	if _, err := jsonrpc.Parse(message(many(1_000_001)), 16<<20); err == nil {
		t.Error("1,000,001 values were accepted")
	}
}

func TestMessage_verbatim(t *testing.T) {
	t.Parallel()
	in := `{ "extra" : [1.10, 12345678901234567890] , "jsonrpc":"2.0","id":7,"m\u0065thod":"a/b","params":{"x" : 1e2,"y":"\u00e9"} ,"z":null}`
	m, err := jsonrpc.Parse([]byte(in), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if m.Kind != jsonrpc.Request || m.Method != "a/b" || string(m.Params) != `{"x" : 1e2,"y":"\u00e9"}` {
		t.Fatalf("parsed as %+v", m)
	}
	want := `{"extra":[1.10, 12345678901234567890],"jsonrpc":"2.0","id":7,"m\u0065thod":"a/b","params":{"x" : 1e2,"y":"\u00e9"},"z":null}`
	if diff := cmp.Diff(want, string(m.Bytes())); diff != "" {
		t.Errorf("re-emitted (-want +got):\n%s", diff)
	}
	other := m.With(jsonrpc.IntID(42), []byte(`{}`))
	want = `{"extra":[1.10, 12345678901234567890],"jsonrpc":"2.0","id":42,"m\u0065thod":"a/b","params":{},"z":null}`
	if diff := cmp.Diff(want, string(other)); diff != "" {
		t.Errorf("with another id and params (-want +got):\n%s", diff)
	}
}

func TestMessage_With_addsParams(t *testing.T) {
	t.Parallel()
	m, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","method":"m"}`), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(m.With(jsonrpc.IntID(1), []byte(`{"a":1}`))), `{"jsonrpc":"2.0","method":"m","params":{"a":1}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestParse_lineBreaks(t *testing.T) {
	t.Parallel()
	m, err := jsonrpc.Parse([]byte("{\"jsonrpc\":\"2.0\",\r\n\"id\":1,\"method\":\"m\",\"params\":{\n\"a\": \"b\\nc\"}}"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(string(m.Bytes()), "\r\n") {
		t.Errorf("a message spans lines: %q", m.Bytes())
	}
	if got := string(jsonrpc.Frame([]byte("{\n}"))); got != "{ }\n" {
		t.Errorf("framed as %q", got)
	}
}

func TestParseBatch(t *testing.T) {
	t.Parallel()
	items, err := jsonrpc.ParseBatch([]byte(` [{"jsonrpc":"2.0","id":1,"method":"m"}, 5, {"jsonrpc":"2.0","id":"x","method":"m","method":"n"}]`), 1<<20)
	if err == nil {
		t.Fatalf("a duplicate member in a batch was accepted: %v", items)
	}
	items, err = jsonrpc.ParseBatch([]byte(` [{"jsonrpc":"2.0","id":1,"method":"m"}, 5, {"jsonrpc":"1.0","id":"x","method":"m"}]`), 1<<20)
	if err != nil || len(items) != 3 {
		t.Fatalf("%d items, error %v", len(items), err)
	}
	if items[0].Err != nil || items[0].Message.Method != "m" || items[1].Err == nil || items[2].Err == nil {
		t.Errorf("items are %+v", items)
	}
	if e := items[2].Envelope; e.ID.String() != `"x"` || !e.Method {
		t.Errorf("envelope of the bad element is %+v", e)
	}
	for name, in := range map[string]string{
		"empty": `[]`, "object": `{}`, "half": `[1`, "trailing": `[1] 2`, "break in a string": "[\"a\rb\"]",
		"65": "[" + strings.TrimSuffix(strings.Repeat("1,", 65), ",") + "]",
	} {
		if _, err := jsonrpc.ParseBatch([]byte(in), 1<<20); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := jsonrpc.ParseBatch([]byte(`[1]`), 2); err == nil {
		t.Error("a batch above the bound was accepted")
	}
	if got := string(jsonrpc.Batch([][]byte{[]byte(`1`), []byte(`2`)})); got != `[1,2]` {
		t.Errorf("batch is %s", got)
	}
}

func TestBuilders(t *testing.T) {
	t.Parallel()
	id := jsonrpc.IntID(3)
	rows := []struct{ got, want string }{
		{string(jsonrpc.NewRequest(id, "a\"b", nil)), `{"jsonrpc":"2.0","id":3,"method":"a\"b"}`},
		{string(jsonrpc.NewRequest(id, "m", []byte(`{"a":1}`))), `{"jsonrpc":"2.0","id":3,"method":"m","params":{"a":1}}`},
		{string(jsonrpc.NewNotification("m", nil)), `{"jsonrpc":"2.0","method":"m"}`},
		{string(jsonrpc.NewError(jsonrpc.ID{}, jsonrpc.ErrorObject(-32600, "bad \xff", nil))),
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"bad ` + "\ufffd" + `"}}`},
		{string(jsonrpc.ErrorObject(1, "m", []byte(`{}`))), `{"code":1,"message":"m","data":{}}`},
	}
	for _, row := range rows {
		if row.got != row.want {
			t.Errorf("got %s, want %s", row.got, row.want)
		}
	}
}

func TestAmbiguous(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]bool{
		`{"name":1,"other":2}`: false, `{"name":1,"Name":2}`: true, `{"a":1,"A":2}`: true, `{"NAME":1}`: true,
		`{"na\u0000me":1}`: true, `{"\u212a":1,"k":2}`: true, `{}`: false,
	} {
		m, err := jsonrpc.Members([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		if got := jsonrpc.Ambiguous(m, "name"); got != want {
			t.Errorf("%s: %v, want %v", in, got, want)
		}
	}
}

func TestSniff(t *testing.T) {
	t.Parallel()
	rows := []struct {
		in     string
		id     string
		method bool
		answer bool
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"m","params":{"id":9}}`, `1`, true, false},
		{`{"result":{"id":3,"a":"}\"{"},"jsonrpc":"2.0","id":"a\"b"}`, `"a\"b"`, false, true},
		{`{"result":{"a":[[1,{"id":4`, `null`, false, true},
		{`{"\u0069d": 12 ,"m":1,`, `12`, false, false},
		{`{"id":1,"id":2}`, `null`, false, false},
		{`{"id":1.5}`, `null`, false, false},
		{`{"id":[1]}`, `null`, false, false},
		{`{"id":{"id":1}}`, `null`, false, false},
		{`{"id":1}{"id":1}`, `null`, false, false},
		{`x{"id":1}`, `null`, false, false},
		{`[{"id":1}]`, `null`, false, false},
		{`{"id":1}}`, `null`, false, false},
		{``, `null`, false, false},
		{`{"method":"m","result":1,"id":5}`, `5`, true, true},
	}
	for _, row := range rows {
		got := jsonrpc.Sniff([]byte(row.in))
		if got.ID.String() != row.id || got.Method != row.method || got.Answer != row.answer {
			t.Errorf("%s: %+v", row.in, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[1,2,{"b":null}]},"x":"y"}`,
		`{"jsonrpc":"2.0","id":"\ud83d\ude00","result":1.10}`, `{"jsonrpc":"2.0","method":"m"}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}`, `[{"jsonrpc":"2.0","id":1,"method":"m"}]`,
		`{"jsonrpc":"2.0","id":1.5,"method":"m"}`, `{"id":1,"id":2}`, "{\n}", `{"jsonrpc":"2.0","\u0069d":1,"method":"m"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		env := jsonrpc.Sniff(b)
		m, err := jsonrpc.Parse(b, 1<<20)
		if err != nil {
			if _, ok := errors.AsType[*jsonrpc.FormError](err); !ok {
				t.Fatalf("error of type %T", err)
			}
			return
		}
		if m.Kind != jsonrpc.Notification && env.ID.Key() != m.ID.Key() {
			t.Fatalf("sniffed id %s, parsed id %s", env.ID, m.ID)
		}
		again, err := jsonrpc.Parse(m.Bytes(), 2<<20)
		if err != nil {
			t.Fatalf("re-emitted message: %v", err)
		}
		opts := cmp.AllowUnexported(jsonrpc.ID{})
		type parts struct {
			Kind                  jsonrpc.Kind
			ID                    jsonrpc.ID
			Method                string
			Params, Result, Error []byte
			Line                  string
		}
		of := func(m *jsonrpc.Message) parts {
			return parts{m.Kind, m.ID, m.Method, m.Params, m.Result, m.Error, string(m.Bytes())}
		}
		if diff := cmp.Diff(of(m), of(again), opts); diff != "" {
			t.Fatalf("re-emitted message differs:\n%s", diff)
		}
		if m.Kind == jsonrpc.Notification {
			return
		}
		other, err := jsonrpc.Parse(m.With(jsonrpc.IntID(99), nil), 2<<20)
		if err != nil || other.ID.String() != "99" {
			t.Fatalf("with another id: %v, %v", other, err)
		}
	})
}

func FuzzSniff(f *testing.F) {
	f.Add([]byte(`{"a":"\"","id":7}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e := jsonrpc.Sniff(b)
		if !e.ID.IsZero() {
			if _, err := jsonrpc.ParseID([]byte(e.ID.String())); err != nil {
				t.Fatalf("sniffed an invalid id %s", e.ID)
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	for _, size := range []int{200, 64 << 10, 5 << 20} {
		line := []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + strings.Repeat("x", size) + `"}]}}`)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				if _, err := jsonrpc.Parse(line, 16<<20); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
