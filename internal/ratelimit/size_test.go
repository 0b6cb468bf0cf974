package ratelimit_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil/internal/ratelimit"
)

const limit = 1000

// bodies is a server that admits what knows the word, and answers what it made of the body.
func bodies(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ratelimit.Hold(r)
		if r.Header.Get("Authorization") == "" {
			if n, err := io.Copy(io.Discard, r.Body); n > 0 || r.ContentLength != 0 && !isBody(err, ratelimit.ReasonUnread) {
				t.Errorf("read %d, %v", n, err)
			}
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		err := ratelimit.Admit(w, r, limit)
		n := int64(0)
		if err == nil {
			n, err = io.Copy(io.Discard, r.Body)
		}
		e, _ := errors.AsType[*ratelimit.BodyError](err)
		switch {
		case err == nil:
			fmt.Fprint(w, n)
		case e == nil:
			w.WriteHeader(http.StatusInternalServerError)
		case e.Reason == ratelimit.ReasonTooLarge:
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		case e.Reason == ratelimit.ReasonEncoding:
			w.WriteHeader(http.StatusUnsupportedMediaType)
		default:
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func isBody(err error, want ratelimit.Reason) bool {
	e, ok := errors.AsType[*ratelimit.BodyError](err)
	return ok && e.Reason == want && e.Error() != ""
}

func zipped(t *testing.T, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(make([]byte, n)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// endless never ends, and counts what is taken of it.
type endless struct{ n int }

func (e *endless) Read(p []byte) (int, error) {
	e.n += len(p)
	return len(p), nil
}

func TestAdmit(t *testing.T) {
	t.Parallel()
	s := bodies(t)
	type header map[string]string
	chunked := func(n int) io.Reader { return io.LimitReader(&endless{}, int64(n)) } // of no length that net/http knows
	for _, c := range []struct {
		name   string
		body   io.Reader
		header header
		status int
	}{
		{"none", nil, nil, 200},
		{"as much as there may be", strings.NewReader(strings.Repeat("x", limit)), nil, 200},
		{"one more", strings.NewReader(strings.Repeat("x", limit+1)), nil, 413},
		{"in chunks", chunked(limit), nil, 200},
		{"in chunks, one more", chunked(limit + 1), nil, 413},
		{"in chunks, a lot", chunked(100 << 20), nil, 413},
		{"identity", strings.NewReader("x"), header{"Content-Encoding": "Identity"}, 200},
		{"gzip", bytes.NewReader(zipped(t, 100)), header{"Content-Encoding": "gzip"}, 415},
		{"a bomb", bytes.NewReader(zipped(t, 1<<20)), header{"Content-Encoding": "gzip"}, 415},
		{"twice", bytes.NewReader(zipped(t, 100)), header{"Content-Encoding": "gzip, gzip"}, 415},
		{"behind identity", bytes.NewReader(zipped(t, 100)), header{"Content-Encoding": "identity, gzip"}, 415},
		{"br", strings.NewReader("x"), header{"Content-Encoding": "br"}, 415},
		{"zstd", strings.NewReader("x"), header{"Content-Encoding": "zstd"}, 415},
		{"unknown", strings.NewReader("x"), header{"Content-Encoding": "x-something"}, 415},
		{"an encoding of nothing", nil, header{"Content-Encoding": "gzip"}, 415},
		{"nobody's", strings.NewReader("x"), header{"Authorization": ""}, 401},
		{"nobody's bomb", bytes.NewReader(zipped(t, 1<<20)), header{"Authorization": "", "Content-Encoding": "gzip"}, 401},
		{"nobody's endless one", chunked(100 << 20), header{"Authorization": ""}, 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, c.body)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "word")
			for k, v := range c.header {
				r.Header.Set(k, v)
			}
			res, err := s.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if err := res.Body.Close(); err != nil {
				t.Error(err)
			}
			if res.StatusCode != c.status {
				t.Fatalf("%d, want %d", res.StatusCode, c.status)
			}
			if res.StatusCode == http.StatusUnsupportedMediaType && res.Header.Get("Accept-Encoding") != "identity" {
				t.Error("the answer does not say what is accepted")
			}
		})
	}
}

// What is declared to be too long is refused before a byte of it has come.
func TestAdmit_declared(t *testing.T) {
	t.Parallel()
	s := bodies(t)
	for length, want := range map[string]int{
		"999999999": 413, "1001": 413, "-1": 400, "-5": 400, "x": 400, "1e3": 400, "+5": 400, "0x10": 400, "": 400,
		"99999999999999999999999": 400, "5\r\nContent-Length: 6": 400,
	} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nAuthorization: word\r\nContent-Length: %s\r\n\r\n", length)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%q: %v", length, err)
		}
		if res.StatusCode != want {
			t.Errorf("%q: %d, want %d", length, res.StatusCode, want)
		}
		_ = res.Body.Close()
		_ = conn.Close()
	}
}

// Requests that no server of ours has read are judged too.
func TestAdmit_lengths(t *testing.T) {
	t.Parallel()
	for _, lines := range [][]string{{"-5"}, {"x"}, {""}, {"1", "2"}, {"5 "}, {"99999999999999999999"}} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("hello"))
		r.Header["Content-Length"] = lines
		if err := ratelimit.Admit(httptest.NewRecorder(), r, 0); !isBody(err, ratelimit.ReasonLength) {
			t.Errorf("%q: %v", lines, err)
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader("hello"))
	r.ContentLength = -5
	if err := ratelimit.Admit(httptest.NewRecorder(), r, 0); !isBody(err, ratelimit.ReasonLength) {
		t.Error(err)
	}
}

func TestAdmit_limits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ limit, size, want int64 }{
		{0, ratelimit.DefaultMaxBody, ratelimit.DefaultMaxBody}, {0, ratelimit.DefaultMaxBody + 1, ratelimit.DefaultMaxBody}, {-1, 1, 0}, {3, 2, 2},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", io.LimitReader(&endless{}, c.size))
		r.ContentLength = -1
		if err := ratelimit.Admit(httptest.NewRecorder(), r, c.limit); err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, r.Body)
		if n != c.want || (err != nil) != (c.size > c.want) || err != nil && !isBody(err, ratelimit.ReasonTooLarge) {
			t.Errorf("limit %d, %d bytes: read %d, %v", c.limit, c.size, n, err)
		}
		if _, again := r.Body.Read(make([]byte, 1)); err != nil && !isBody(again, ratelimit.ReasonTooLarge) {
			t.Errorf("read on: %v", again)
		}
	}
}
