package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
)

// Monitors get the log that the command line shows, from this machine alone.
func TestAudit_serve(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there is no interrupt to send")
	}
	f := setup(t, "hold: 100ms")
	f.logged(3)
	want := f.run("audit", "checkpoint")
	cmd := f.command("audit", "serve", "--listen", "127.0.0.1:0")
	pipe, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	url, err := bufio.NewReader(pipe).ReadString('\n')
	must(t, err)
	url = strings.TrimSpace(url)
	get := func(url, host string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		must(t, err)
		r.Host = host
		res, err := http.DefaultClient.Do(r)
		must(t, err)
		defer res.Body.Close() //nolint:errcheck // it was read to its end
		body, err := io.ReadAll(res.Body)
		must(t, err)
		return res.StatusCode, string(body)
	}
	if status, body := get(url, ""); status != http.StatusOK || body != want {
		t.Errorf("%s: %d %q, not %q", url, status, body, want)
	}
	base := strings.TrimSuffix(url, "checkpoint")
	if status, body := get(base+"tile/entries/000.p/3", ""); status != http.StatusOK || !strings.Contains(body, `"sequence":3`) {
		t.Errorf("entries: %d %q", status, body)
	}
	if status, body := get(url, "rebound.example:7374"); status != http.StatusForbidden || strings.Contains(body, "counterfoil") {
		t.Errorf("another name: %d %q", status, body)
	}
	for path, status := range map[string]int{
		base + "tile/9/000": http.StatusNotFound, strings.ReplaceAll(base, "/log/", "/log/0") + "checkpoint": http.StatusNotFound,
		base + "../../../": http.StatusNotFound,
	} {
		if got, _ := get(path, ""); got != status {
			t.Errorf("%s: %d, not %d", path, got, status)
		}
	}
	must(t, cmd.Process.Signal(os.Interrupt))
	must(t, cmd.Wait())
	if _, stderr, code := f.try("audit", "serve", "--listen", "0.0.0.0:7374"); code != 1 || !strings.Contains(stderr, "loopback") {
		t.Errorf("every interface: %d %s", code, stderr)
	}
}
