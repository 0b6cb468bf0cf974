package credential

import (
	"errors"
	"strconv"
	"time"

	"github.com/counterfoil/counterfoil"
	"github.com/counterfoil/counterfoil/internal/identity"
)

// What can stand against a change. The stores return them as they are, or as the cause of a coded error.
const (
	// ErrNotFound says that there is no such key, user or refresh credential for whoever asks.
	ErrNotFound = sentinel("there is no such credential")
	// ErrExists says that the user's name is taken.
	ErrExists = sentinel("there is such a user already")
	// ErrTaken says that the subject's name belongs to another owner.
	ErrTaken = sentinel("the subject's name belongs to another owner")
	// ErrChanged says that somebody else's change came first.
	ErrChanged = sentinel("it was changed meanwhile")
	// ErrReused says that a refresh credential was used before.
	ErrReused = sentinel("the refresh credential was used before")
	// ErrNotFirst says that there is somebody already where the first was to be made.
	ErrNotFirst = sentinel("there is one already")
)

type sentinel string

func (s sentinel) Error() string { return string(s) }

// Spoken marks what the stores may pass on.
func (sentinel) Spoken() {}

// A LimitedError refuses an address from which too many attempts came, whoever they were for (429).
type LimitedError struct {
	RetryAfter time.Duration // more than 0
}

// Error returns a sentence that is safe to send.
func (e *LimitedError) Error() string {
	return "too many attempts came from this address; try again in " + strconv.FormatInt(int64((e.RetryAfter+time.Second-1)/time.Second), 10) + " s"
}

// refused is the one answer to every credential that is not good. why is for the log.
func refused(why string) error {
	return &identity.Error{Reason: identity.ReasonInvalid, Why: why, Err: nil}
}

func unavailable(why string, err error) error {
	return &identity.Error{Reason: identity.ReasonUnavailable, Why: why, Err: err}
}

func fail(msg string) error {
	return &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Msg: msg}
}

func failAt(path, msg string) error {
	return &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Path: path, Msg: msg}
}

func denied(msg string) error {
	return &counterfoil.Error{Code: counterfoil.CodePolicyDenied, Msg: msg}
}

// gone reports whether a store has found nothing.
func gone(err error) bool { return errors.Is(err, ErrNotFound) }
