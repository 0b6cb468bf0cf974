package console

import (
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"time"
)

// The limits of one request.
const (
	maxHeader = 16 << 10
	maxBody   = 64 << 10
)

// NewServer returns a server for h with every timeout and limit set. Its own complaints go to log.
func NewServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		// Long enough for a passphrase to be stretched and the largest page to be sent.
		WriteTimeout:   time.Minute,
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// CheckLoopback returns an error unless addr is 127.0.0.1 or ::1 with a port. A name is refused, because what it stands
// for can change.
func CheckLoopback(addr string) error {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		return errors.New("the console's address must be 127.0.0.1:PORT or [::1]:PORT")
	}
	if a := ap.Addr(); a != netip.AddrFrom4([4]byte{127, 0, 0, 1}) && a != netip.IPv6Loopback() {
		return errors.New("the console listens on the loopback interface only, on 127.0.0.1 or [::1]")
	}
	return nil
}

// LoopbackHosts returns what the Host header of a request to a loopback port may say. A server that takes no other can't be
// reached by a page of the web whose own name was made to point here.
func LoopbackHosts(port int) [3]string {
	p := ":" + strconv.Itoa(port)
	return [3]string{"127.0.0.1" + p, "localhost" + p, "[::1]" + p}
}
