package main

import (
	"bufio"
	"context"
	"errors"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A browser is an HTTP client that keeps cookies and fills in forms, as a person without scripts would.
type browser struct {
	t *testing.T
	http.Client
	base string
}

// signIn follows a fresh link from "counterfoil console".
func (f *fixture) signIn() *browser {
	f.t.Helper()
	b := f.browser()
	link := strings.TrimSpace(f.run("console"))
	page := b.get(strings.TrimPrefix(link, b.base))
	b.submit(page, "/login", nil)
	return b
}

func (f *fixture) browser() *browser {
	f.t.Helper()
	jar, err := cookiejar.New(nil)
	must(f.t, err)
	return &browser{t: f.t, Client: http.Client{Jar: jar, Timeout: 20 * time.Second}, base: "http://" + f.console}
}

func (b *browser) get(path string) string {
	b.t.Helper()
	_, page := b.send(http.MethodGet, path, nil)
	return page
}

func (b *browser) send(method, path string, form url.Values) (int, string) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.base+path, strings.NewReader(form.Encode()))
	must(b.t, err)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", b.base)
	}
	res, err := b.Do(req)
	must(b.t, err)
	body, err := io.ReadAll(res.Body)
	must(b.t, errors.Join(err, res.Body.Close()))
	return res.StatusCode, string(body)
}

var (
	formRE  = regexp.MustCompile(`(?s)<form[^>]*action="([^"]*)"[^>]*>(.*?)</form>`)
	inputRE = regexp.MustCompile(`<input[^>]*>`)
	attrRE  = regexp.MustCompile(`(name|value|type)="([^"]*)"`)
)

// submit finds the form on the page whose action ends so, fills it in and sends it.
func (b *browser) submit(page, action string, fill map[string]string) (int, string) {
	b.t.Helper()
	for _, m := range formRE.FindAllStringSubmatch(page, -1) {
		if !strings.HasSuffix(m[1], action) {
			continue
		}
		form := url.Values{}
		for _, in := range inputRE.FindAllString(m[2], -1) {
			a := map[string]string{}
			for _, x := range attrRE.FindAllStringSubmatch(in, -1) {
				a[x[1]] = x[2]
			}
			if a["name"] != "" && a["type"] != "checkbox" {
				form.Set(a["name"], a["value"])
			}
		}
		for k, v := range fill {
			form.Set(k, v)
		}
		return b.send(http.MethodPost, m[1], form)
	}
	b.t.Fatalf("no form %s on:\n%s", action, page)
	return 0, ""
}

func TestConsole_approve(t *testing.T) {
	t.Parallel()
	f := setup(t, "hold: 20s")
	s := f.open()
	server, file := f.fake(t, "plain")
	c := f.connect(server...)
	done := make(chan string, 1)
	go func() {
		text, code, _ := c.call(t.Context(), "append", map[string]any{"line": "from the pages"})
		done <- text + code
	}()
	id := f.awaitPending(s)
	f.awaitConsole()
	b := f.signIn()
	if list := b.get("/"); !strings.Contains(list, id) {
		t.Fatalf("the list lacks the request:\n%s", list)
	}
	page := b.get("/approvals/" + id)
	if !strings.Contains(page, "from the pages") {
		t.Fatalf("the page lacks the arguments:\n%s", page)
	}
	if status, _ := b.submit(page, "/approve", map[string]string{"passphrase": "wrong passphrase", "reason": "fine"}); status < 400 {
		t.Fatalf("a wrong passphrase: %d", status)
	}
	if n := effects(t, file); n != 0 {
		t.Fatal("an effect without a signature")
	}
	if status, page := b.submit(page, "/approve", map[string]string{"passphrase": testPassphrase, "reason": "fine"}); status >= 400 {
		t.Fatalf("approving: %d\n%s", status, page)
	}
	if got := <-done; got != "done" {
		t.Fatalf("the call: %s", got)
	}
	if n := effects(t, file); n != 1 {
		t.Fatalf("%d effects", n)
	}
	p, err := s.gate.Approval(t.Context(), tenant, id)
	must(t, err)
	f.verify(p.Receipt)
}

// Another process takes the pages over within two seconds, and who was signed in still is.
func TestConsole_takeOver(t *testing.T) {
	t.Parallel()
	f := setup(t)
	server, _ := f.fake(t, "plain")
	one := f.connect(server...)
	f.awaitConsole()
	two := f.connect(server...)
	b := f.signIn()
	must(t, one.cmd.Process.Kill())
	_ = one.Wait()
	began := time.Now()
	f.awaitConsole()
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("took %s", took)
	}
	if page := b.get("/"); strings.Contains(page, `action="/login"`) {
		t.Error("the session is lost")
	}
	_ = two
}

func (f *fixture) awaitConsole() {
	f.t.Helper()
	f.await("the pages", func() (string, bool) {
		ctx, cancel := context.WithTimeout(f.t.Context(), time.Second)
		defer cancel()
		ok, _ := dial(ctx, f.console)
		return "", ok
	})
}

var (
	selectRE = regexp.MustCompile(`(?s)<select[^>]*name="([^"]*)".*?</select>`)
	chosenRE = regexp.MustCompile(`<option[^>]*value="([^"]*)"[^>]* selected`)
)

// The page of a server that is not known offers the profile's effects for one decision over all tools.
func TestConsole_classify(t *testing.T) {
	t.Parallel()
	f := setup(t, "hold: 100ms")
	c := f.connect(append([]string{"env", "X=1"}, npmServer(t, "memory")...)...)
	if _, code, _ := c.call(t.Context(), "read_graph", map[string]any{}); code != "approval_pending" {
		t.Fatalf("before: %q", code)
	}
	f.awaitConsole()
	b := f.signIn()
	var id string
	if m := regexp.MustCompile(`href="(/upstreams/[^"]+)"`).FindStringSubmatch(b.get("/upstreams")); m != nil {
		id = m[1]
	}
	page := b.get(html.UnescapeString(id))
	fill := map[string]string{"passphrase": testPassphrase}
	for _, m := range selectRE.FindAllStringSubmatch(page, -1) {
		chosen := chosenRE.FindStringSubmatch(m[0])
		if chosen == nil {
			t.Fatalf("nothing is filled in for %s:\n%s", m[1], m[0])
		}
		fill[m[1]] = chosen[1]
	}
	if len(fill) < 5 {
		t.Fatalf("the page offers %d tools:\n%s", len(fill)-1, page)
	}
	if status, answer := b.submit(page, "/classify", fill); status >= 400 {
		t.Fatalf("classifying: %d\n%s", status, answer)
	}
	if _, code, err := c.call(t.Context(), "read_graph", map[string]any{}); err != nil || code != "" {
		t.Fatalf("after: %q %v", code, err)
	}
}

// In the interactive demo the person decides on the pages.
func TestDemo_interactive(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(built.counterfoil, "demo", "--interactive")
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	var id, link, pass, last string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		last = lines.Text()
		if _, after, ok := strings.Cut(last, "waits for a person: "); ok {
			id = after
		}
		if _, after, ok := strings.Cut(last, "Open "); ok {
			link = after
		}
		if _, after, ok := strings.Cut(last, "the passphrase of this demo is "); ok {
			pass = after
			f := &fixture{t: t}
			f.console, _, _ = strings.Cut(strings.TrimPrefix(link, "http://"), "/")
			f.awaitConsole()
			b := f.browser()
			b.submit(b.get(strings.TrimPrefix(link, b.base)), "/login", nil)
			if status, page := b.submit(b.get("/approvals/"+id), "/approve", map[string]string{"passphrase": pass}); status >= 400 {
				t.Fatalf("approving: %d\n%s", status, page)
			}
		}
	}
	if err := cmd.Wait(); err != nil || !strings.HasPrefix(last, "9. ") {
		t.Fatalf("%v, last line %q", err, last)
	}
}
