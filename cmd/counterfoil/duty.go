package main

import (
	"context"
	"log/slog"
	"sync"
)

// A duty is the work that every gateway process does beside its calls: it recovers, expires and wakes, and it publishes the
// log.
type duty struct {
	ctx    context.Context // ends with the duty
	work   sync.WaitGroup
	cancel context.CancelFunc
	failed error // why the gateway's own work ended; read after the wait

	stopLog func() // ends the publisher, which outlives the rest
}

// serve takes the duty up, and returns when the first call may come, or why it may not. The duty goes on when ctx ends, until
// it is stopped. A failure on the way ends ctx through interrupt: no call is taken without the duty.
func (s *state) serve(ctx context.Context, interrupt context.CancelCauseFunc) (*duty, error) {
	d := &duty{stopLog: func() {}}
	d.ctx, d.cancel = context.WithCancel(context.WithoutCancel(ctx))
	ready, ended := make(chan struct{}), make(chan struct{})
	d.work.Go(func() {
		defer close(ended)
		if d.failed = s.gate.Serve(d.ctx, func() { close(ready) }); d.failed != nil {
			interrupt(d.failed)
		}
	})
	select {
	case <-ready:
		d.stopLog = s.publish(ctx)
		return d, nil
	case <-ended:
	case <-ctx.Done():
	}
	if err := d.stop(); err != nil {
		return nil, err
	}
	return nil, context.Cause(ctx)
}

// stop ends the duty and waits for it. It returns why it failed, if it did.
func (d *duty) stop() error {
	d.cancel()
	d.work.Wait()
	d.stopLog()
	return d.failed
}

// publish publishes the log from here on. stop waits for the end of that.
func (s *state) publish(ctx context.Context) (stop func()) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var work sync.WaitGroup
	work.Go(func() { s.logs.Run(own) })
	return func() {
		cancel()
		work.Wait()
	}
}

// publishOnce publishes what the log has gained. Where that fails nothing is lost: the next process publishes it.
func (s *state) publishOnce(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	if err := s.logs.Publish(ctx); err != nil {
		s.log.LogAttrs(ctx, slog.LevelError, "the log could not be published at the end", slog.String("error", err.Error()))
	}
}
