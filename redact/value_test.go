package redact_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/redact"
)

func TestValue(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, in, want string }{
		{"flat", `{ "apiKey": "k", "owner": "x" }`, `{ "apiKey": "***", "owner": "x" }`},
		{"spellings", `{"api_key":"a","X-API-Key":"b","clientSecret":"c","DB_PASSWORD":"d","sslpassword":"e","passwd":"f","AccessToken":"g"}`,
			`{"api_key":"***","X-API-Key":"***","clientSecret":"***","DB_PASSWORD":"***","sslpassword":"***","passwd":"***","AccessToken":"***"}`},
		{"cut otherwise", `{"PassWord":"a","passWord":"b","sshKey":"c","mfaCode":"d","pw":"e","dbpass":"f"}`, `{"PassWord":"***","passWord":"***","sshKey":"***","mfaCode":"***","pw":"***","dbpass":"***"}`},
		{"in one word", `{"xamzsignature":"a","xgoogcredential":"b","sharedaccesssignature":"c","proxyauthorization":"q7R2k9"}`,
			`{"xamzsignature":"***","xgoogcredential":"***","sharedaccesssignature":"***","proxyauthorization":"***"}`},
		{"pairs", `{"headers":[["X-Api-Key","a1b2c3"],["Accept","a1b2c3"],["Cookie","a=b1c2"]]}`, `{"headers":[["X-Api-Key","***"],["Accept","a1b2c3"],["Cookie","***"]]}`},
		{"qualified", `{"password2":"a","secretString":"b","tokenValue":"c","oldPassword":"d"}`, `{"password2":"***","secretString":"***","tokenValue":"***","oldPassword":"***"}`},
		{"deep", `{"a":[{"b":{"connection":{"host":"db.internal","password":"hunter2"}}}]}`, `{"a":[{"b":{"connection":{"host":"db.internal","password":"***"}}}]}`},
		{"connection string", `{"connectionString":"Server=x;Pwd=p4ss","host":"db.internal"}`, `{"connectionString":"***","host":"db.internal"}`},
		{"number", `{"password":123456,"passwords":3,"token":5}`, `{"password":"***","passwords":3,"token":5}`},
		{"what a name holds", `{"credentials":{"username":"u","key":"abc","type":"basic","nested":["x",{"y":"z"}]}}`,
			`{"credentials":{"username":"u","key":"***","type":"basic","nested":["***",{"y":"***"}]}}`},
		{"list", `{"secrets":["a","b"],"tokens":["the","cat","tok_abc123"]}`, `{"secrets":["***","***"],"tokens":["the","cat","***"]}`},
		{"our own, deep", `{"a":[{"b":{"c":["it is cfk_q7R2k9Lm4Xz8Tn3vB1cY6w",{"d":"cfr_q7R2k9Lm4Xz8Tn3vB1cY6w"}],"cfb_q7R2k9Lm4Xz8Tn3vB1cY6w":"cf1.k1.q7R2k9Lm4Xz8Tn3vB1cY6w"}}]}`,
			`{"a":[{"b":{"c":["it is ***",{"d":"***"}],"***":"***"}}]}`},
		{"in a value", `{"url":"postgres://u:s3cret@h/db","note":"password=s3cret"}`, `{"url":"postgres://u:***@h/db","note":"password=***"}`},
		{"escaped", `{"p\u0061ssword":"a\"b","x":"pass\u0077ord=hunter2\n"}`, `{"p\u0061ssword":"***","x":"password=***\n"}`},
		{"document in a string", `{"text":"{ \"token\": \"t\", \"n\": 1.10 }"}`, `{"text":"{ \"token\": \"***\", \"n\": 1.10 }"}`},
		{"twice", `["{\"a\":\"{\\\"password\\\":\\\"x\\\"}\"}"]`, `["{\"a\":\"{\\\"password\\\":\\\"***\\\"}\"}"]`},
		{"in a name", `{"https://u:s3cret@h/":1,"https://u:other3@h/":2,"https://u:***@h/":3}`, `{"https://u:*** (2)@h/":1}`},
		{"name and value", `[{"name":"API_KEY","value":"abc"},{"value":"b","key":"password"},{"name":"PATH","value":"/bin"}]`,
			`[{"name":"API_KEY","value":"***"},{"value":"***","key":"password"},{"name":"PATH","value":"/bin"}]`},
		{"arguments", `["x","--password","hunter","--verbose","y","--token","abc"]`, `["x","--password","***","--verbose","y","--token","***"]`},
		{"web key", `{"d":"abc","crv":"Ed25519","kty":"OKP","x":"def"}`, `{"d":"***","crv":"Ed25519","kty":"OKP","x":"def"}`},
		{"headers", `{"Authorization":"Bearer a","cookie":"a=b1cdef","Set-Cookie":"sid=abc123; Path=/"}`, `{"Authorization":"***","cookie":"***","Set-Cookie":"***"}`},
		{"auth", `{"auth":"dXNlcjpwYXNz","proxy":{"authorization":"q7R2k9"}}`, `{"auth":"***","proxy":{"authorization":"***"}}`},
		{"the document", `"Bearer q7R2k9Lm4Xz8"`, `"Bearer ***"`},
		{"an error", `{"error":{"message":"dial https://u:s3cret@h: refused","data":{"secret":"x1"}}}`, `{"error":{"message":"dial https://u:***@h: refused","data":{"secret":"***"}}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, rep, err := redact.Value([]byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if tt.name == "in a name" {
				tt.want = `{"https://u:***@h/ (2)":1,"https://u:***@h/ (3)":2,"https://u:***@h/":3}`
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Error(diff)
			}
			if rep.Clean() || !json.Valid(got) {
				t.Errorf("report %+v", rep)
			}
			if again, rep, err := redact.Value(got); err != nil || string(again) != string(got) || !rep.Clean() {
				t.Errorf("again: %s, %+v, %v", again, rep, err)
			}
		})
	}
}

func TestValue_unchanged(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		`{}`, `[]`, `null`, `1.10`, `""`, " { \"a\" : 1.0e2 ,\t\"b\":\"\\u0041\" } ",
		`{"author":"bob","authority":"a","tokenizer":"b","passenger":"c","secretary":"d","keyboard":"e","authored":"f","monkey":"g","compass":"h"}`,
		`{"tokenType":"Bearer","secretName":"db","passwordPolicy":"long","apiKeyId":"1","credential_type":"x","authorizationScope":["a:b"]}`,
		`{"password":true,"secret":null,"token":"","api_key":"***","client_secret":"${SECRET}","pwd":"required"}`,
		`{"usage":{"prompt_tokens":10,"total_tokens":12,"max_tokens":5},"_meta":{"progressToken":"abc123def"},"nextPageToken":"CAUQAA"}`,
		`{"properties":{"password":{"type":"string","description":"your password","default":"x","examples":["abc123def"]}},"required":["password","email"]}`,
		`{"digest":"sha256:` + hex64 + `","id":"run-` + hex40 + `","approval":"apr-` + hex40 + `","commit":"` + hex40 + `"}`,
		`{"key":"name","value":"x"}`, `{"d":"x","k":"y"}`, `{"pass":3,"auth":"none","authorization":{"scopes":["a"]}}`,
		`["password","email"]`, `[["password","a1b2c3","x"]]`, `["x-api-key","a1b2c3"]`, `[["authorization","content-type"]]`, `{"signatures":[{"keyid":"k","sig":"a1b2c3d4"}]}`, `{"signature":"a1b2c3d4"}`,
		`{"passwordless":true,"surpass":"a1b2c3","session":"a1b2c3"}`, `{"Did you forget your password?":"Passwort vergessen?"}`, `{"text":"[1, 2"}`, `{"text":"{\"a\":1,\"a\":2}"}`,
	} {
		got, rep, err := redact.Value([]byte(in))
		if err != nil || string(got) != in || !rep.Clean() {
			t.Errorf("%s: %s %+v %v", in, got, rep, err)
		}
	}
}

func TestValue_rejects(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"empty": "", "half": `{"password":"hunter2"`, "trailing": `{} {}`, "trailing text": `{}x`, "twice": `{"hunter2":1,"hunter2":2}`,
		"UTF-8": "\"\xff\"", "surrogate": `"\ud800"`, "mark": "\ufeff{}", "bare": `hunter2`, "closing": `}`, "NaN": `{"hunter2":NaN}`,
		"deep": strings.Repeat("[", redact.MaxDepth+1) + strings.Repeat("]", redact.MaxDepth+1), "very deep": strings.Repeat("[", 1<<20),
		"long": strings.Repeat(" ", redact.MaxBytes+1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, rep, err := redact.Value([]byte(in))
			if got != nil || !rep.Clean() || !errors.Is(err, counterfoil.CodeInvalidInput) {
				t.Fatalf("got %.40q, %+v, %v", got, rep, err)
			}
			if e, ok := errors.AsType[*counterfoil.Error](err); !ok || e.Err != nil || name != "twice" && name != "NaN" && strings.Contains(e.Error(), "hunter2") {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, _, err := redact.Value([]byte(strings.Repeat("[", redact.MaxDepth) + strings.Repeat("]", redact.MaxDepth))); err != nil {
		t.Error(err)
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	_, rep, err := redact.Value([]byte(`{"a/b":[{"password":"x1"},"https://u:s3cret@h and https://u:s3cret@i"],"ghp_q7R2k9Lm4Xz8Tn3vB1cY6w":{"token":"t"},"z":"{\"pwd\":\"q\"}"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := redact.Report{Total: 6, Findings: []redact.Finding{
		{Kind: redact.KindNamed, Pointer: "/a~1b/0/password", Count: 1},
		{Kind: redact.KindUserInfo, Pointer: "/a~1b/1", Count: 2},
		{Kind: redact.KindGitHub, Pointer: "/***", Count: 1},
		{Kind: redact.KindNamed, Pointer: "/***/token", Count: 1},
		{Kind: redact.KindNamed, Pointer: "/z", Count: 1},
	}}
	if diff := cmp.Diff(want, rep); diff != "" {
		t.Error(diff)
	}
	_, rep, err = redact.Value([]byte(`{"value":"b","x":1,"name":"password","y":{"kty":"x","k":"s","z":2}}`))
	if err != nil {
		t.Fatal(err)
	}
	want = redact.Report{Total: 2, Findings: []redact.Finding{
		{Kind: redact.KindNamed, Pointer: "/value", Count: 1}, {Kind: redact.KindPrivateKey, Pointer: "/y/k", Count: 1},
	}}
	if diff := cmp.Diff(want, rep); diff != "" {
		t.Error(diff)
	}
	_, rep, err = redact.Value([]byte(`[` + strings.Repeat(`{"password":"x1"},`, 150) + `1]`))
	if err != nil || rep.Total != 150 || len(rep.Findings) != 100 {
		t.Errorf("%d of %d, %v", len(rep.Findings), rep.Total, err)
	}
	_, rep, err = redact.Value([]byte(`{"` + strings.Repeat(`\u0000`, 1000) + `":{"password":"x1"}}`))
	if err != nil || len(rep.Findings[0].Pointer) > 300 || strings.Contains(rep.Findings[0].Pointer, "\x00") {
		t.Errorf("%+v, %v", rep, err)
	}
}

// A document masked as text is masked as a document.
func TestText_document(t *testing.T) {
	t.Parallel()
	got, rep := redact.Text(" {\"password\": [\"a\"] }\n")
	if got != " {\"password\": [\"***\"] }\n" || rep.Findings[0].Pointer != "/password/0" {
		t.Errorf("got %q, %+v", got, rep)
	}
}
