package upstream

import (
	"errors"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/gateway"
)

type sentinel string

func (s sentinel) Error() string { return string(s) }

// What a call's error can wrap beside its code and gateway.ErrUnsent.
const (
	ErrGone      = sentinel("the upstream has ended")
	ErrTooLarge  = sentinel("the upstream's answer is larger than is accepted")
	ErrBadAnswer = sentinel("the upstream's answer is not a strict JSON-RPC message")
	ErrBusy      = sentinel("the upstream does not read what it is sent")
)

// unsent is the error of a call of which not one byte was written.
func unsent(msg string, cause error) error {
	return &counterfoil.Error{Code: counterfoil.CodeUnavailable, Msg: msg, Err: errors.Join(gateway.ErrUnsent, cause)}
}

// unknown is the error of a call that may have had its effect.
func unknown(msg string, cause error) error {
	return &counterfoil.Error{Code: counterfoil.CodeUnknownOutcome, Msg: msg, Err: cause}
}
