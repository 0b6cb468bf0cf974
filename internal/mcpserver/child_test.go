package mcpserver_test

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil/internal/upstream"
)

func startChild(t *testing.T) *upstream.Process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := upstream.Start(t.Context(), upstream.Options{Argv: []string{exe, "fake"}, Stderr: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestServe_childDies(t *testing.T) {
	t.Parallel()
	c := serveOver(t, startChild(t), nil, &gate{}, nil)
	c.initialize(initializeParams)
	c.want(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"method":"tools/call","params":{"name":"echo"}}}`)
	c.wantError(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"die"}}`, "2", 7009)
	c.wantError(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo"}}`, "3", 7012)
	c.wantError(`{"jsonrpc":"2.0","id":4,"method":"prompts/list"}`, "4", 7012)
	c.wantError(`nonsense`, "null", -32700)
}

// Not parallel: it counts goroutines.
func TestServe_cycles(t *testing.T) {
	var before int
	for i := range 31 {
		if i == 1 {
			before = runtime.NumGoroutine()
		}
		t.Run("", func(t *testing.T) {
			c := serveOver(t, startChild(t), nil, &gate{}, nil)
			c.initialize(initializeParams)
			c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}`)
			if i%2 == 0 {
				c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"die"}}`)
			}
		})
	}
	for range 100 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("%d goroutines before, %d after", before, runtime.NumGoroutine())
}
