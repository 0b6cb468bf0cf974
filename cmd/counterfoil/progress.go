package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/term"
)

const progressEvery = 200 * time.Millisecond

// progress returns a function that shows on the terminal how far some long work has come, and one that ends the line. Where
// standard error is no terminal, or JSON is asked for, nothing is shown.
func (a *app) progress(what string) (step func(done, total int64), end func()) {
	tty, ok := a.err.(*os.File)
	if !ok || a.asJSON || !term.IsTerminal(int(tty.Fd())) {
		return func(int64, int64) {}, func() {}
	}
	var last time.Time
	shown := false
	step = func(done, total int64) {
		now := time.Now()
		if now.Sub(last) < progressEvery && done < total {
			return
		}
		last, shown = now, true
		fmt.Fprintf(a.err, "\r%s: %d of %d\x1b[K", what, done, max(done, total))
	}
	return step, func() {
		if shown {
			fmt.Fprint(a.err, "\r\x1b[K")
		}
	}
}
