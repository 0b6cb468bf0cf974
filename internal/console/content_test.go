package console_test

import (
	"encoding/base64"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/console"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

// canonical returns the canonical form of a value's JSON text.
func canonical(t *testing.T, doc string) string {
	t.Helper()
	b, err := counterfoil.Canonicalize([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// quoted returns s as a JSON string.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\x1b", `\u001b`, "\r", `\r`).Replace(s) + `"`
}

// The destructive part comes after what a reviewer would look at; all of it is shown, and approving takes more care.
func TestApproval_shows_all_of_long_arguments(t *testing.T) {
	t.Parallel()
	var keys strings.Builder
	for i := range 300 {
		fmt.Fprintf(&keys, `"key%03d":"harmless",`, i)
	}
	harmless := strings.Repeat("echo this is fine\n", 12)
	for name, arguments := range map[string]string{
		"comment":   `{"script":` + quoted(harmless+strings.Repeat("# nothing to see here\n", 450)+"rm -rf ~/LAST") + `}`,
		"blanks":    `{"script":` + quoted(harmless+strings.Repeat(" ", 9<<10)+"rm -rf ~/LAST") + `}`,
		"newlines":  `{"script":` + quoted(harmless+strings.Repeat("\n", 9<<10)+"rm -rf ~/LAST") + `}`,
		"many keys": `{` + keys.String() + `"zzz":"rm -rf ~/LAST"}`,
		"one line":  `{"script":` + quoted(strings.Repeat("x", 8000)+"rm -rf ~/LAST") + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			arguments := canonical(t, arguments)
			d := newDesk(t, ask("a-1", "run", "mutation", arguments))
			page := d.page("/approvals/a-1")
			if n := strings.Count(page, "rm -rf ~/LAST"); n != 2 {
				t.Errorf("the end is there %d times, want 2: in the tree and in the exact text", n)
			}
			lines := strings.Count(arguments, `\n`) + 1
			size := fmt.Sprintf("%s bytes, %d line", thousands(len(arguments)), lines)
			if lines > 999 {
				size = fmt.Sprintf("%s bytes, %s lines", thousands(len(arguments)), thousands(lines))
			}
			if !strings.Contains(page, "I have seen all "+size) || !strings.Contains(page, " required> I have seen") {
				t.Errorf("the reviewer need not confirm %q", size)
			}
			v := d.form("/approvals/a-1", "/approvals/a-1/approve")
			v.Set("passphrase", passphrase)
			for _, seen := range []string{"", "on", "1"} {
				without := url.Values{"csrf": v["csrf"], "shown": v["shown"], "passphrase": v["passphrase"]}
				if seen != "" {
					without.Set("seen", seen)
				}
				if w := d.do(d.request(http.MethodPost, "/approvals/a-1/approve", without)); w.Code != http.StatusUnprocessableEntity {
					t.Errorf("approved with seen=%q: %d", seen, w.Code)
				}
			}
			if w := d.do(d.request(http.MethodPost, "/approvals/a-1/approve", v)); w.Code != http.StatusSeeOther {
				t.Errorf("%d", w.Code)
			}
		})
	}
}

func TestApproval_needs_no_confirmation_to_deny(t *testing.T) {
	t.Parallel()
	d := newDesk(t, ask("a-1", "run", "mutation", `{"script":"`+strings.Repeat("x", 8000)+`"}`))
	if w := d.decide("a-1", "deny", passphrase); w.Code != http.StatusSeeOther || d.state() != gateway.Denied {
		t.Errorf("%d %s", w.Code, d.state())
	}
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// What can't be shown in full can't be approved here, only denied.
func TestApproval_refuses_what_it_cannot_show(t *testing.T) {
	t.Parallel()
	for name, arguments := range map[string]string{
		"2 MiB in one value":  `{"a":"` + strings.Repeat("x", 2<<20) + `"}`,
		"more than 1 MiB":     `{"a":"` + strings.Repeat("x", 1<<20+1) + `"}`,
		"a name of 1 MiB":     `{"` + strings.Repeat("x", 1<<20+1) + `":1}`,
		"2 MiB in all":        `{"a":["` + strings.Repeat(strings.Repeat("x", 1023)+`","`, 2<<10) + `"]}`,
		"marks without end":   `{"a":"` + strings.Repeat("a\u200b", 20_001) + `"}`,
		"marks in many nodes": `[` + strings.Repeat(`"`+"\u202e"+`",`, 20_001) + `1]`,
		"not JSON":            `{"a":`,
		"two documents":       `{} {}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t, ask("a-1", "run", "mutation", arguments))
			page := d.page("/approvals/a-1")
			if strings.Contains(page, "Sign and approve") {
				t.Error("it can be approved")
			}
			if len(page) > 64<<10 {
				t.Errorf("the page has %d bytes", len(page))
			}
			v := d.form("/approvals/a-1", "/approvals/a-1/deny")
			v.Set("passphrase", passphrase)
			if w := d.do(d.request(http.MethodPost, "/approvals/a-1/approve", v)); w.Code != http.StatusUnprocessableEntity || d.state() != gateway.Pending {
				t.Errorf("approved: %d", w.Code)
			}
			w := d.get("/approvals/a-1/arguments")
			if w.Body.String() != arguments || !strings.HasPrefix(w.Header().Get("Content-Disposition"), "attachment;") || w.Header().Get("Content-Type") != "application/octet-stream" {
				t.Errorf("the file has %d bytes, %s", w.Body.Len(), w.Header().Get("Content-Disposition"))
			}
			if w := d.do(d.request(http.MethodPost, "/approvals/a-1/deny", v)); w.Code != http.StatusSeeOther {
				t.Errorf("deny: %d", w.Code)
			}
		})
	}
}

func TestApproval_without_a_digest_cannot_be_approved(t *testing.T) {
	t.Parallel()
	a := ask("a-1", "run", "mutation", `{}`)
	a.DryRunDigest = ""
	d := newDesk(t, a)
	v := d.form("/approvals/a-1", "/approvals/a-1/deny")
	v.Set("passphrase", passphrase)
	if w := d.do(d.request(http.MethodPost, "/approvals/a-1/approve", v)); w.Code != http.StatusUnprocessableEntity {
		t.Errorf("%d", w.Code)
	}
}

// A document of very many values has no tree; its exact text is whole all the same.
func TestApproval_of_many_values(t *testing.T) {
	t.Parallel()
	arguments := `[` + strings.Repeat(`1,`, 20_000) + `"LAST"]`
	d := newDesk(t, ask("a-1", "run", "mutation", arguments))
	page := d.page("/approvals/a-1")
	if !strings.Contains(page, html.EscapeString(arguments)) || strings.Contains(page, `class="tree"><span class="head"><span class="kind">array`) {
		t.Error("the exact text is not there, or a tree is")
	}
	if w := d.decide("a-1", "approve", passphrase); w.Code != http.StatusSeeOther {
		t.Error(w.Code)
	}
}

// The two spellings of a word look the same; the page shows which is which.
func TestApproval_shows_that_spellings_differ(t *testing.T) {
	t.Parallel()
	d := newDesk(t, ask("a-1", "write_file", "mutation", "{\"path\":\"/data/caf\u00e9.txt\"}"), ask("a-2", "write_file", "mutation", "{\"path\":\"/data/cafe\u0301.txt\"}"))
	composed, apart := d.page("/approvals/a-1"), d.page("/approvals/a-2")
	if strings.Contains(composed, "U+") || strings.Contains(composed, "alert") {
		t.Error("the usual spelling is marked")
	}
	if !strings.Contains(html.UnescapeString(apart), "⟦cafe U+0301⟧") || !strings.Contains(apart, "1 × accents spelled apart") {
		t.Error("the unusual spelling is not marked")
	}
}

func TestApproval_marks_what_cannot_be_seen(t *testing.T) {
	t.Parallel()
	tags := ""
	for _, r := range "rm -rf" {
		tags += string(0xE0000 + r)
	}
	arguments := canonical(t, `{"a":"x\u202ey\u200bz\u2028w`+tags+`","b":"p\u0430ypal.com","na\u200bme":"v","c":"\u05d0\u05d1"}`)
	d := newDesk(t, ask("a-1", "run", "mutation", arguments))
	page := html.UnescapeString(d.page("/approvals/a-1"))
	for _, part := range []string{"⟦U+202E⟧", "⟦U+200B⟧", "⟦U+2028⟧", "tag characters: “rm -rf”", "⟦p U+0430 ypal⟧", "looks like “paypal”",
		"1 × bidi control", "2 × invisible character", "from right to left", "Not everything here is what it looks like"} {
		if n := strings.Count(page, part); n == 0 {
			t.Errorf("%q is not there", part)
		}
	}
	for _, r := range "\u202e\u200b\u2028" + tags {
		if strings.ContainsRune(page, r) {
			t.Errorf("%U is in the page as it is", r)
		}
	}
}

// evil is what a hostile server would send.
func evil() []string {
	return []string{`<img src=x onerror=alert(1)>`, `javascript:alert(1)`, `data:text/html,<script>alert(1)</script>`, `[x](javascript:alert(1))`,
		`</script><script>alert(1)</script>`, `<svg onload=alert(1)>`, `"><a href=javascript:alert(1)>x</a>`, `' onmouseover='alert(1)`,
		`{{template "main"}}`, `</textarea><b>`, `</div></main><form action=//evil.example>`, "x\n2026-11-30 approval a-1 granted by admin", "\x1b[1A\x1b[2K", "\u202e", "\u2028", "\r"}
}

// hostile is a desk where every text that can come from outside is s.
func hostile(t *testing.T, s string) *desk {
	t.Helper()
	a := ask("a-1", s, "mutation", canonical(t, `{`+quoted(s)+`:[`+quoted(s)+`]}`))
	a.Requester, a.UpstreamName, a.Rule = s, s, s
	a.Definition = []byte(canonical(t, `{"description":`+quoted(s)+`,"title":`+quoted(s)+`,"icons":[{"src":`+quoted(s)+`}]}`))
	a.Findings = []gateway.Finding{{Pattern: s, Severity: s, Pointer: s}}
	done := a
	done.ID, done.State, done.DecidedBy, done.Reason, done.VoidCause, done.Outcome, done.DecidedAt = "a-2", gateway.Void, s, s, s, s, start()
	d := newDesk(t, a, done)
	d.service.upstreams = []console.Upstream{{ID: "u-1", Name: s, Identity: a.Definition, Status: s, Digest: hash("tools"), Tools: []console.Tool{
		{Name: s, Status: s, Effect: s, Suggested: s, Why: s, Definition: a.Definition, DefinitionDigest: s, Pinned: []byte(`{"a":1}`)}}}}
	d.service.receipts = []console.Receipt{{ID: "r-1", UpstreamName: s, Tool: s, Effect: s, Outcome: s, At: start()}}
	d.service.bundles["r-1"] = []byte(canonical(t, `{"x":`+quoted(s)+`,"payloadType":"x","payload":"`+base64.StdEncoding.EncodeToString([]byte(`{"inner":`+quoted(s)+`}`))+`"}`))
	return d
}

var (
	tag  = regexp.MustCompile(`<(/?)([a-zA-Z!][a-zA-Z0-9]*)([^>]*)>`)
	attr = regexp.MustCompile(`([a-zA-Z-]+)(?:="([^"]*)")?`)

	value   = regexp.MustCompile(`"[^"]*"`)
	handler = regexp.MustCompile(`\son[a-z]+`)
)

// Whatever a server or an agent says is text: it makes no tag, no attribute and no link.
func TestPages_text_from_outside_is_inert(t *testing.T) {
	t.Parallel()
	paths := []string{"/", "/decided", "/approvals/a-1", "/approvals/a-2", "/upstreams", "/upstreams/u-1", "/receipts", "/receipts/r-1"}
	harmless := hostile(t, "harmless")
	shape := func(page string) string {
		var b strings.Builder
		for _, m := range tag.FindAllStringSubmatch(page, -1) {
			switch m[2] {
			case "span", "ul", "li", "bdi", "div", "p", "strong", "details", "summary", "code": // marks and folded digests come and go
				continue
			}
			b.WriteString(m[1] + m[2])
			for _, a := range attr.FindAllStringSubmatch(m[3], -1) {
				b.WriteString(" " + a[1])
				if a[1] == "href" || a[1] == "action" || a[1] == "src" {
					b.WriteString("=" + a[2])
				}
			}
			b.WriteByte('\n')
		}
		return b.String()
	}
	for _, s := range evil() {
		d := hostile(t, s)
		for _, path := range paths {
			page := d.page(path)
			want := shape(harmless.page(path))
			if strings.Contains(want, "alert") || want == "" {
				t.Fatal("the comparison is worth nothing")
			}
			if got := shape(page); got != want {
				t.Errorf("%s with %q has other elements:\n%s\nwant\n%s", path, s, got, want)
			}
			for _, m := range tag.FindAllStringSubmatch(page, -1) {
				if handler.MatchString(value.ReplaceAllString(m[3], "")) {
					t.Errorf("%s with %q: %s", path, s, m[0])
				}
			}
		}
	}
}

// In a list, one thing is one line, whatever its name.
func TestPages_lists_show_escapes(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"x\n2026-11-30 approval a-1 granted by admin": `x\u{a}2026-11-30 approval a-1 granted by admin`,
		"\x1b[1A\x1b[2K":           `\u{1b}[1A\u{1b}[2K`,
		"\u202etxt":                `\u{202e}txt`,
		"a\u2028b":                 `a\u{2028}b`,
		"a\rb":                     `a\u{d}b`,
		strings.Repeat("x", 1<<20): strings.Repeat("x", 80) + "… (1048576 bytes)",
		`{"a":1}`:                  `{&#34;a&#34;:1}`,
	} {
		d := hostile(t, s)
		for _, path := range []string{"/", "/decided", "/upstreams", "/receipts"} {
			page := d.page(path)
			if !strings.Contains(page, want) || len(page) > 64<<10 {
				t.Errorf("%s with %.40q has %d bytes and not %q", path, s, len(page), want)
			}
			if strings.ContainsAny(page, "\u202e\u2028\x1b\r") {
				t.Errorf("%s with %.40q has raw characters", path, s)
			}
		}
	}
}

func TestHome_with_ten_thousand_requests(t *testing.T) {
	t.Parallel()
	var list []gateway.Approval
	for i := range 10_000 {
		a := ask(fmt.Sprintf("a-%d", i), "write_file", "mutation", `{}`)
		if i%3 == 1 {
			a.Requester = "agent:other"
		}
		list = append(list, a)
	}
	d := newDesk(t, list...)
	began := time.Now()
	page := d.page("/")
	if took := time.Since(began); took > 5*time.Second || len(page) > 128<<10 {
		t.Errorf("the page took %s and has %d bytes", took, len(page))
	}
	if n := strings.Count(page, "<tr data-id="); n != 50 {
		t.Errorf("%d rows, want 50", n)
	}
	if n := strings.Count(page, "wants to use"); n != 2 {
		t.Errorf("%d groups, want 2", n)
	}
	seen := map[string]bool{}
	next := regexp.MustCompile(`<a href="([^"]*)" rel="next">`)
	row := regexp.MustCompile(`<tr data-id="([^"]*)">`)
	for path := "/"; path != ""; {
		page := d.page(path)
		for _, m := range row.FindAllStringSubmatch(page, -1) {
			seen[m[1]] = true
		}
		path = ""
		if m := next.FindStringSubmatch(page); m != nil {
			path = html.UnescapeString(m[1])
		}
	}
	if len(seen) != 10_000 {
		t.Errorf("%d of 10,000 can be reached", len(seen))
	}
}

func TestAPI_has_no_arguments(t *testing.T) {
	t.Parallel()
	d := newDesk(t, ask("a-1", "write_file\n", "mutation", `{"secret":"hunter2"}`))
	w := d.get("/api/approvals?state=pending")
	want := `{"approvals":[{"id":"a-1","tool":"write_file\\u{a}","effect":"mutation","expires":"2026-03-02T14:18:00Z"}],"more":false}`
	if w.Body.String() != want || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%s", w.Body)
	}
}

func TestReceipt_bundle_is_a_file(t *testing.T) {
	t.Parallel()
	d := fullDesk(t)
	w := d.get("/receipts/r-1/bundle.json")
	if w.Body.String() != `{"a":1}` || w.Header().Get("Content-Disposition") != `attachment; filename="bundle.json"` ||
		w.Header().Get("Content-Type") != "application/json" || !strings.Contains(w.Header().Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("%v\n%s", w.Header(), w.Body)
	}
	for _, path := range []string{"/receipts/none", "/receipts/none/bundle.json"} {
		if w := d.get(path); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

func TestReceipt_shows_payloads(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.service.bundles["r-1"] = []byte(`{"receipt":{"payload":"` + base64.StdEncoding.EncodeToString([]byte(`{"outcome":"completed-fine"}`)) + `","payloadType":"x"}}`)
	page := d.page("/receipts/r-1")
	if !strings.Contains(page, "completed-fine") || !strings.Contains(page, "the payload, decoded") {
		t.Error(page)
	}
	for _, doc := range []string{`{"payload":"!","payloadType":"x"}`, `{"payload":"e30","payloadType":"x"}`, `{"payload":"bm90anNvbg==","payloadType":"x"}`, `nonsense`, ``, `[`} {
		d.service.bundles["r-1"] = []byte(doc)
		d.page("/receipts/r-1")
	}
}
