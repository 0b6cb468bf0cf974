package api

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// The limits of connections. What a call may take beyond them is lifted by its handler.
const (
	headerTime = 10 * time.Second
	readTime   = time.Minute      // header and body
	writeTime  = 15 * time.Minute // from the header's end to the answer's: longer than a call is held and then runs
	idleTime   = 2 * time.Minute
	maxHeader  = 32 << 10
	maxStreams = 250 // of one HTTP/2 connection
)

// ServerOptions say how an API is served.
type ServerOptions struct {
	API *API
	// Listen is the address and port. A name or an address that is not a loopback one needs TLS or TLSTerminated.
	Listen string
	// Certificate and Key are files in PEM, read again when they change. Both or none.
	Certificate, Key string
	// TLSTerminated says that a proxy in front ends TLS.
	TLSTerminated bool
	// Streams are told to end, first of all: what they serve never ends by itself.
	Streams []func(context.Context) error
	// Drain is how long the server goes on taking requests after it has begun to say that it is not ready.
	Drain time.Duration
	// Grace is how long those who are being answered have after that.
	Grace  time.Duration
	Logger *slog.Logger
}

// A Server serves an API on one listener.
type Server struct {
	o    ServerOptions
	http *http.Server
	pair *pair // nil without TLS
}

// NewServer returns a server, or says why it would not be safe.
func NewServer(o ServerOptions) (*Server, error) {
	if o.API == nil || o.Logger == nil || o.Grace <= 0 || o.Drain < 0 {
		return nil, errors.New("a server needs an API, a logger and a time to stop in")
	}
	if (o.Certificate == "") != (o.Key == "") {
		return nil, errors.New("a certificate needs its key, and a key its certificate")
	}
	if o.Certificate != "" && o.TLSTerminated {
		return nil, errors.New("TLS ends here or at a proxy, not at both")
	}
	host, _, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return nil, errors.New("the server's address must be an address and a port, as 127.0.0.1:7374")
	}
	// A name is not judged by what it stands for now: that can change.
	ip, err := netip.ParseAddr(host)
	if loopback := err == nil && ip.IsLoopback() || host == "localhost"; !loopback && o.Certificate == "" && !o.TLSTerminated {
		return nil, errors.New("the server would be heard in the clear by other machines: it needs TLS, or the word that a proxy in front ends it")
	}
	s := &Server{o: o}
	s.http = limits(o.API, o.Logger)
	if o.Certificate != "" {
		if s.pair, err = loadPair(o.Certificate, o.Key, o.API.o.Now); err != nil {
			return nil, err
		}
		s.http.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: s.pair.get, NextProtos: []string{"h2", "http/1.1"}}
	}
	return s, nil
}

// NewMetricsServer returns a server for the handler of (*API).Metrics, with every limit set.
func NewMetricsServer(h http.Handler, log *slog.Logger) *http.Server { return limits(h, log) }

func limits(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerTime, ReadTimeout: readTime, WriteTimeout: writeTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader,
		HTTP2:    &http.HTTP2Config{MaxConcurrentStreams: maxStreams, SendPingTimeout: idleTime},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// Listen opens the server's address.
func (s *Server) Listen(ctx context.Context) (net.Listener, error) {
	var lc net.ListenConfig
	return lc.Listen(ctx, "tcp", s.o.Listen)
}

// Serve serves until ctx ends, and then stops in this order: it says that it is not ready, and goes on for Drain, so that
// who asks sends no more; it ends the streams; it takes no connection any more and finishes what it has begun, for Grace;
// it cuts what is left. What else there is to close, the limiter and the store for example, is closed after it returns.
// now, when it is closed, ends the waiting for Drain and Grace; nil never does.
func (s *Server) Serve(ctx context.Context, l net.Listener, now <-chan struct{}) error {
	served := make(chan error, 1)
	go func() { // waited for below
		if s.http.TLSConfig != nil {
			served <- s.http.ServeTLS(l, "", "")
			return
		}
		served <- s.http.Serve(l)
	}()
	select {
	case err := <-served:
		s.o.API.Stop()
		return errors.Join(err, s.http.Close())
	case <-ctx.Done():
	}
	s.o.API.Stop()
	pause(now, s.o.Drain)
	err := s.shutdown(context.WithoutCancel(ctx), now)
	if e := <-served; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return err
}

func (s *Server) shutdown(ctx context.Context, now <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.Grace)
	defer cancel()
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	wait.Go(func() {
		select {
		case <-now:
			cancel()
		case <-ctx.Done():
		}
	})
	// Streams end while connections are closed: Shutdown would wait for them for ever.
	errs := make([]error, len(s.o.Streams))
	var streams sync.WaitGroup
	for i, end := range s.o.Streams {
		streams.Go(func() { errs[i] = end(ctx) })
	}
	err := s.http.Shutdown(ctx)
	streams.Wait()
	if err != nil {
		// Who is still being answered has had their time.
		s.o.Logger.LogAttrs(ctx, slog.LevelWarn, "requests were cut off at the end", slog.String("cause", err.Error()))
		err = s.http.Close()
	}
	return errors.Join(append(errs, err)...)
}

func pause(now <-chan struct{}, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-now:
	}
}
