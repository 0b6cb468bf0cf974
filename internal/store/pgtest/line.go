package pgtest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// How a connection ends that a trap has cut.
const (
	errCutBefore = sentinel("cut before a commit")
	errCutAfter  = sentinel("cut after a commit")
)

type sentinel string

func (s sentinel) Error() string { return string(s) }

// A line is one connection through a wire. What the client sends is read by one goroutine, what the server answers by
// another.
type line struct {
	wire           *Wire
	client, server net.Conn

	// Of the client's side.
	in         *bufio.Reader
	statements map[string]string // prepared, by name
	portals    map[string]string // the statement of each
	begun      bool              // by a statement
	texts      []string          // of the transaction under way

	mu    sync.Mutex
	syncs int  // messages that end with a ReadyForQuery which has not come yet
	mute  bool // nothing more goes to the client
	done  bool // all that was sent is answered, since mute
}

func newLine(w *Wire, client, server net.Conn) *line {
	return &line{
		wire: w, client: client, server: server, in: bufio.NewReader(client),
		statements: map[string]string{}, portals: map[string]string{},
	}
}

// The codes that stand in the place of a protocol version.
const (
	sslRequest = 80877103
	gssRequest = 80877104
)

// maxMessage bounds a message: this is a test's own client.
const maxMessage = 1 << 30

// A message is one of the protocol's, with its type and length.
type message struct {
	kind byte // 0 for the first of a connection, which has none
	raw  []byte
	body []byte
}

func readMessage(r *bufio.Reader, typed bool) (message, error) {
	var m message
	var head [5]byte
	length := head[1:]
	if typed {
		if _, err := io.ReadFull(r, head[:1]); err != nil {
			return m, err
		}
		m.kind = head[0]
	}
	if _, err := io.ReadFull(r, length); err != nil {
		return m, err
	}
	n := binary.BigEndian.Uint32(length)
	if n < 4 || n > maxMessage {
		return m, fmt.Errorf("a message of %d bytes", n)
	}
	if typed {
		m.raw = slices.Grow(m.raw, int(n)+1)
		m.raw = append(m.raw, head[:]...)
	} else {
		m.raw = append(m.raw, length...)
	}
	at := len(m.raw)
	m.raw = append(m.raw, make([]byte, n-4)...)
	m.body = m.raw[at:]
	_, err := io.ReadFull(r, m.body)
	return m, err
}

// open brings the beginning through: no encryption, then the client's first message.
func (l *line) open() error {
	for {
		m, err := readMessage(l.in, false)
		if err != nil {
			return err
		}
		if len(m.body) == 4 {
			switch binary.BigEndian.Uint32(m.body) {
			case sslRequest, gssRequest:
				if _, err := l.client.Write([]byte{'N'}); err != nil {
					return err
				}
				continue
			}
		}
		_, err = l.server.Write(m.raw)
		return err
	}
}

// fromClient brings the client's messages to the server, up to the commit that a trap waits for.
func (l *line) fromClient() error {
	for {
		m, err := readMessage(l.in, true)
		if err != nil {
			return err
		}
		at, delay := where(0), time.Duration(0)
		if commits, texts := l.follow(m); commits {
			at, delay = l.wire.commit(texts)
		}
		if err := l.wait(delay); err != nil {
			return err
		}
		if at == before {
			return errCutBefore
		}
		if err := l.send(m, at == after); err != nil {
			return err
		}
		if at == after {
			return l.finish(m)
		}
	}
}

// finish brings the rest of a commit to the server: its answer ends with the Sync.
func (l *line) finish(m message) error {
	for m.kind != 'S' && m.kind != 'Q' {
		var err error
		if m, err = readMessage(l.in, true); err != nil {
			return err
		}
		if err := l.send(m, true); err != nil {
			return err
		}
	}
	return errCutAfter
}

func (l *line) wait(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-l.wire.ctx.Done():
		return l.wire.ctx.Err()
	}
}

func (l *line) send(m message, mute bool) error {
	l.mu.Lock()
	if m.kind == 'S' || m.kind == 'Q' {
		l.syncs++
	}
	l.mute = l.mute || mute
	l.mu.Unlock()
	_, err := l.server.Write(m.raw)
	return err
}

// follow keeps track of what the client does. It reports whether the server commits when it gets this message, and the
// statements of the transaction.
func (l *line) follow(m message) (commits bool, texts []string) {
	switch m.kind {
	case 'Q':
		l.execute(first(m.body))
		return l.end(true)
	case 'P':
		l.statements[first(m.body)] = first(rest(m.body))
	case 'B':
		l.portals[first(m.body)] = l.statements[first(rest(m.body))]
	case 'E':
		l.execute(l.portals[first(m.body)])
		return l.end(false)
	case 'S':
		return l.end(true)
	}
	return false, nil
}

func (l *line) execute(text string) {
	l.texts = append(l.texts, text)
	l.begun = l.begun || has(text, "BEGIN", "START")
}

// end ends the transaction, if this is its end: a statement says so, or it was never begun by one and this is a sync.
func (l *line) end(sync bool) (commits bool, texts []string) {
	if len(l.texts) == 0 {
		return false, nil
	}
	last := l.texts[len(l.texts)-1]
	switch {
	case has(last, "COMMIT", "END"):
		commits = true
	case has(last, "ROLLBACK", "ABORT") && !strings.Contains(strings.ToUpper(last), " TO "):
	case !l.begun && sync:
		commits = slices.ContainsFunc(l.texts, writes)
	default:
		return false, nil
	}
	texts, l.texts, l.begun = l.texts, nil, false
	return commits, texts
}

// fromServer brings the server's answers to the client.
func (l *line) fromServer() error {
	r := bufio.NewReader(l.server)
	for {
		m, err := readMessage(r, true)
		if err != nil {
			return err
		}
		l.mu.Lock()
		if m.kind == 'Z' {
			l.syncs = max(0, l.syncs-1)
			l.done = l.mute && l.syncs == 0
		}
		mute, done := l.mute, l.done
		l.mu.Unlock()
		if done {
			return nil
		}
		if mute {
			continue
		}
		if _, err := l.client.Write(m.raw); err != nil {
			return err
		}
	}
}

// answered reports whether the server has answered all that came before the cut.
func (l *line) answered() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done
}

// first returns the text at the beginning of a message, which ends with a NUL.
func first(b []byte) string {
	text, _, _ := bytes.Cut(b, []byte{0})
	return string(text)
}

// rest returns what comes after that.
func rest(b []byte) []byte {
	_, after, _ := bytes.Cut(b, []byte{0})
	return after
}

func writes(text string) bool {
	return has(text, "INSERT", "UPDATE", "DELETE", "MERGE", "WITH", "CALL", "DO", "CREATE", "ALTER", "DROP")
}

// has reports whether one of a text's statements begins with one of the words. A semicolon inside of a literal is taken for
// the end of a statement: what a store sends has none.
func has(text string, words ...string) bool {
	for statement := range strings.SplitSeq(text, ";") {
		if f := strings.Fields(statement); len(f) > 0 && slices.Contains(words, strings.ToUpper(f[0])) {
			return true
		}
	}
	return false
}
