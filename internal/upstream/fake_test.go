//go:build unix

package upstream_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/counterfoil/counterfoil/internal/upstream"
)

// The test binary is also the supervisor, the fake server, and a gateway that can be killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case "__supervise":
			os.Exit(upstream.Supervise(os.Args[3:]))
		case "fake":
			fake(os.Args[2])
			os.Exit(0)
		case "gateway":
			gatewayProcess(os.Args[2])
		}
	}
	// A program built with -race sleeps a second before it exits, unless told not to.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func fakeArgv(mode string) []string {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return []string{exe, "fake", mode}
}

func supervisor() []string { return []string{fakeArgv("")[0], "__supervise", "--"} }

type fakeRequest struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

func fake(mode string) {
	end := "\n"
	switch mode {
	case "banner":
		fmt.Print("Starting the server...\n{\"half\": 1\n\n[1,2]\n")
	case "crlf":
		end = "\r\n"
	case "stubborn":
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
		fmt.Println(`{"jsonrpc":"2.0","method":"notifications/ready"}`)
		time.Sleep(time.Hour)
	case "polite":
		term := make(chan os.Signal, 1)
		signal.Notify(term, syscall.SIGTERM)
		fmt.Println(`{"jsonrpc":"2.0","method":"notifications/ready"}`)
		<-term
		fmt.Fprintln(os.Stderr, "bye")
		os.Exit(0)
	case "deaf":
		time.Sleep(time.Hour)
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var r fakeRequest
		if err := json.Unmarshal(line, &r); err != nil {
			panic(err)
		}
		if len(r.ID) == 0 {
			fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/seen","params":%s}`+end, bytesOr(line, "{}"))
			continue
		}
		fakeAnswer(mode, end, r)
	}
}

func bytesOr(b []byte, s string) string {
	if len(b) == 0 {
		return s
	}
	return strings.TrimSpace(string(b))
}

func fakeAnswer(mode, end string, r fakeRequest) {
	answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"method":%q,"params":%s}}`, r.ID, r.Method, bytesOr(r.Params, "null"))
	switch mode {
	case "banner":
		fmt.Print(answer[:10])
		time.Sleep(20 * time.Millisecond)
		fmt.Print(answer[10:] + end)
		return
	case "size":
		var p struct{ Size int }
		if err := json.Unmarshal(r.Params, &p); err != nil {
			panic(err)
		}
		head, tail := `{"result":{"text":"`, `"},"jsonrpc":"2.0","id":`+string(r.ID)+`}`
		answer = head + strings.Repeat("x", p.Size-len(head)-len(tail)) + tail
	case "stderr":
		fmt.Fprint(os.Stderr, strings.Repeat("x", 1<<20)+"last words\n")
	case "silent":
		return
	case "die":
		os.Exit(3)
	case "midline":
		fmt.Print(answer[:len(answer)/2])
		os.Exit(0)
	case "wrongid":
		for _, id := range []string{`"` + string(r.ID) + `"`, "1" + string(r.ID) + "000", "null", string(r.ID) + ".0", "-" + string(r.ID)} {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":"wrong"}`+end, id)
		}
		defer fmt.Print(answer + end) // a second time
	case "duplicate":
		answer = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"a":1,"a":2}}`, r.ID)
	case "batch":
		answer = "[" + answer + `,{"jsonrpc":"2.0","method":"notifications/seen"}]`
	case "ask":
		fmt.Print(`{"jsonrpc":"2.0","id":"q1","method":"roots/list"}` + end)
	case "fork", "forkandleave":
		pid := forkGrandchild()
		answer = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%d}`, r.ID, pid)
	}
	fmt.Print(answer + end)
	if mode == "forkandleave" {
		os.Exit(0)
	}
}

// forkGrandchild starts a process that ignores polite signals, in a session of its own, and returns its pid.
func forkGrandchild() int {
	argv := fakeArgv("stubborn")
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	return cmd.Process.Pid
}

// gatewayProcess is what TestSupervise_gatewayKilled kills: it starts a child under a supervisor and waits for its own end.
func gatewayProcess(mode string) {
	p, err := upstream.Start(context.Background(), upstream.Options{Argv: fakeArgv(mode), Supervisor: supervisor()})
	if err != nil {
		panic(err)
	}
	if _, err := io.WriteString(p, `{"jsonrpc":"2.0","id":1,"method":"m"}`+"\n"); err != nil {
		panic(err)
	}
	_, _ = io.Copy(os.Stdout, p)
	time.Sleep(time.Hour)
}
