// Package mcpexec binds one exactly named MCP tool that reads to the execution contract of the boundary: a
// counterfoil.Executor for tools/call.
//
// What it guarantees. The tool is called once per claim, under its own name, with the approved canonical bytes and nothing
// else. A claim for another tool, effect or method reaches nothing. A result whose rows can't be counted is refused; no
// count is ever assumed. A callback that panics is an error like any other.
//
// What it trusts: Call sends what it is given to the server that the host means; and the host knows that the tool only
// reads, for the server's own word is not asked. It does no I/O of its own and knows no transport.
package mcpexec

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/counterfoil/counterfoil"
)

// Method is the method of MCP that calls a tool, and of every operation that an Executor takes.
const Method = "tools/call"

// maxName bounds a tool's name, in bytes.
const maxName = 128

// Options say which tool an Executor calls, and how. All but Logger are required. The functions may be called by several
// goroutines at once; the slices they get are their own.
type Options struct {
	// Tool is the tool's name, exactly: a letter or digit, then letters, digits, "_", ".", ":" and "-", at most 128.
	Tool string
	// Parse reads the approved arguments, as canonical JSON, and says what is wrong with them. It runs before Call: on its
	// error nothing reaches the tool. What is sent are the approved bytes, whatever Parse made of them.
	Parse func(arguments []byte) error
	// Call sends tools/call and returns the result member of the answer, as it came. Its error leaves the outcome unknown,
	// unless it carries counterfoil.CodeExecutionFailed: that says that nothing reached the tool.
	Call func(ctx context.Context, tool string, arguments []byte) (result []byte, err error)
	// CountRows counts the rows of a result, from its bytes alone, so that anyone can count again. It is asked twice. An
	// error, a negative count or two different counts refuse the result.
	CountRows func(result []byte) (int64, error)
	// Logger is told why a result was refused, with the error of CountRows: the receipt does not say. Nil for none.
	Logger *slog.Logger
}

// An Executor calls one tool. New is its only maker; a nil or zero Executor refuses. It implements counterfoil.Executor.
type Executor struct{ o Options }

var _ counterfoil.Executor = (*Executor)(nil)

// New makes an executor from a copy of the options: later changes to them change nothing. It fails with
// counterfoil.CodeInvalidInput.
func New(o Options) (*Executor, error) {
	switch {
	case !isName(o.Tool):
		return nil, &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Path: "/Tool", Msg: "this is not the name of one tool"}
	case o.Parse == nil:
		return nil, &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Path: "/Parse", Msg: "the arguments must be parsed"}
	case o.Call == nil:
		return nil, &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Path: "/Call", Msg: "there is no way to call the tool"}
	case o.CountRows == nil:
		return nil, &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Path: "/CountRows", Msg: "the rows must be counted"}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Executor{o: o}, nil
}

// isName reports whether s names one tool: no pattern, no blank, nothing that a reader could take for another name.
func isName(s string) bool {
	if s == "" || len(s) > maxName {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case i > 0 && (c == '_' || c == '.' || c == ':' || c == '-'):
		default:
			return false
		}
	}
	return true
}

// Tool returns the tool's name.
func (x *Executor) Tool() string {
	if x == nil {
		return ""
	}
	return x.o.Tool
}

// Effect returns counterfoil.EffectRead, always.
func (x *Executor) Effect() counterfoil.Effect { return counterfoil.EffectRead }

// Execute redeems the claim and calls the tool. An error with counterfoil.CodeExecutionFailed says that nothing reached the
// tool; with counterfoil.CodeAborted the claim is not even redeemed. A result that is refused comes back with the row count
// -1, for which the boundary records a failure and the digest of what was seen.
func (x *Executor) Execute(ctx context.Context, c *counterfoil.Claim) (counterfoil.Result, error) {
	if x == nil || x.o.Call == nil {
		return counterfoil.Result{}, unreached("this executor was not made by New", nil)
	}
	if err := context.Cause(ctx); err != nil {
		return counterfoil.Result{}, &counterfoil.Error{Code: counterfoil.CodeAborted, Msg: "cancelled before the tool was called", Err: err}
	}
	w, err := c.Redeem()
	if err != nil {
		return counterfoil.Result{}, err
	}
	op := w.Operation
	if op.Tool() != x.o.Tool || op.Effect() != counterfoil.EffectRead || op.Method() != Method {
		return counterfoil.Result{}, unreached("the operation is for another tool, effect or method", nil)
	}
	if err := guarded(func() error { return x.o.Parse(op.Parameters()) }); err != nil {
		return counterfoil.Result{}, unreached("the tool would not understand the arguments", err)
	}
	if err := context.Cause(ctx); err != nil {
		return counterfoil.Result{}, unreached("cancelled before the tool was called", err)
	}
	var result []byte
	err = guarded(func() (err error) {
		result, err = x.o.Call(ctx, x.o.Tool, op.Parameters())
		return err
	})
	if err != nil {
		return counterfoil.Result{}, fmt.Errorf("mcpexec: calling the tool: %w", err)
	}
	return x.judge(ctx, slices.Clone(result), w.Limit) // a copy: Call may keep its slice and write to it
}

// judge makes the executor's result of what the tool answered.
func (x *Executor) judge(ctx context.Context, result []byte, limit counterfoil.Limit) (counterfoil.Result, error) {
	seen := counterfoil.Result{Value: result, Uncounted: true, JSON: true}
	if int64(len(result)) > limit.Bytes {
		return seen, nil // the boundary refuses it by its size: no need to parse it
	}
	k, err := kindOf(result)
	switch {
	case err != nil:
		return x.refuse(ctx, result, err), nil
	case k == kindUnfinished:
		return seen, fmt.Errorf("mcpexec: the tool has not finished: its result is not complete")
	case k == kindReport:
		seen.Failed = true
		return seen, nil
	}
	rows, err := x.count(result)
	if err != nil {
		return x.refuse(ctx, result, err), nil
	}
	return counterfoil.Result{Value: result, Rows: rows, JSON: true}, nil
}

// count counts twice: a count that depends on more than the bytes proves nothing to whoever counts again.
func (x *Executor) count(result []byte) (rows int64, err error) {
	var again int64
	err = guarded(func() (err error) {
		if rows, err = x.o.CountRows(slices.Clone(result)); err != nil {
			return err
		}
		again, err = x.o.CountRows(slices.Clone(result))
		return err
	})
	switch {
	case err != nil:
		return 0, fmt.Errorf("counting rows: %w", err)
	case rows < 0:
		return 0, fmt.Errorf("the row count is negative")
	case rows != again:
		return 0, fmt.Errorf("the row count is not the same twice")
	}
	return rows, nil
}

func (x *Executor) refuse(ctx context.Context, result []byte, err error) counterfoil.Result {
	x.o.Logger.LogAttrs(ctx, slog.LevelError, "result refused", slog.String("tool", x.o.Tool), slog.String("cause", err.Error()))
	return counterfoil.Result{Value: result, Rows: -1}
}

func unreached(msg string, cause error) error {
	return &counterfoil.Error{Code: counterfoil.CodeExecutionFailed, Msg: msg, Err: cause}
}

// guarded calls the host's code. A panic in it becomes an error that says nothing about how far it came.
func guarded(call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the host's code panicked: %v", p)
		}
	}()
	return call()
}
