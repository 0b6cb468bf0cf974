package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// An agent is a scripted MCP client: the untrusted caller in the demo. It speaks to a wrap process over its pipes.
type agent struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	next int
}

// agentError is a JSON-RPC error as the agent gets it.
type agentError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    struct {
		Code       string `json:"code"`
		ApprovalID string `json:"approval_id"`
		Receipt    string `json:"receipt"`
	} `json:"data"`
}

func (e *agentError) Error() string { return e.Message }

type agentReply struct {
	ID     int            `json:"id"`
	Method string         `json:"method"`
	Result jsontext.Value `json:"result"`
	Error  *agentError    `json:"error"`
}

const agentStop = 5 * time.Second

// startAgent starts a server and the conversation with it. env is what its environment has beside this program's.
func startAgent(ctx context.Context, argv, env []string, stderr io.Writer) (*agent, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...) //nolint:gosec // this very program
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = stderr
	cmd.WaitDelay = agentStop
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	a := &agent{cmd: cmd, in: in, out: bufio.NewReader(out)}
	_, err = a.request("initialize", jsontext.Value(`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"demo-agent","version":"1"}}`))
	if err == nil {
		err = a.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"})
	}
	if err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

// call calls a tool and returns its text.
func (a *agent) call(tool string, arguments map[string]any) (string, error) {
	params, err := json.Marshal(map[string]any{"name": tool, "arguments": arguments})
	if err != nil {
		return "", err
	}
	raw, err := a.request("tools/call", params)
	if err != nil {
		return "", err
	}
	var res struct {
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		IsError bool `json:"isError"`
	}
	if err := json.Unmarshal(raw, &res); err != nil {
		return "", err
	}
	text := ""
	for _, c := range res.Content {
		text += c.Text
	}
	if res.IsError {
		return "", fmt.Errorf("the tool failed: %s", text)
	}
	return text, nil
}

func (a *agent) request(method string, params jsontext.Value) (jsontext.Value, error) {
	a.next++
	id := a.next
	if err := a.send(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params}); err != nil {
		return nil, err
	}
	for {
		line, err := a.out.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("the gateway ended the conversation: %w", err)
		}
		var r agentReply
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, err
		}
		switch {
		case r.Method != "" || r.ID != id:
			continue // a notification, or nothing of ours
		case r.Error != nil:
			return nil, r.Error
		default:
			return r.Result, nil
		}
	}
}

func (a *agent) send(message any) error {
	b, err := json.Marshal(message, json.Deterministic(true))
	if err != nil {
		return err
	}
	_, err = a.in.Write(append(b, '\n'))
	return err
}

func (a *agent) close() error {
	err := errors.Join(a.in.Close(), a.cmd.Wait())
	if _, exited := errors.AsType[*exec.ExitError](err); exited {
		return fmt.Errorf("wrap ended with exit code %s", strconv.Itoa(a.cmd.ProcessState.ExitCode()))
	}
	return err
}
