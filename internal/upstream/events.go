package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

// The bounds of going on with a stream that broke off.
const (
	maxResumes   = 5
	defaultPause = time.Second
	maxPause     = 10 * time.Second
	maxQuestions = 32 // that an upstream may ask while it answers
)

// An event is one of a stream's.
type event struct {
	id    string
	data  []byte // nil if it has none
	retry time.Duration
}

// An eventReader reads events (the format is the HTML standard's) and never more than its bounds.
type eventReader struct {
	r    *bufio.Reader
	max  int // of one event
	left int // of the stream
}

func newEventReader(r io.Reader, maxEvent, maxStream int) *eventReader {
	return &eventReader{r: bufio.NewReader(r), max: maxEvent, left: maxStream}
}

// next returns the next event that says something. An event that is cut off is none: the error then is io.EOF, or what
// broke the stream.
func (e *eventReader) next() (event, error) {
	var ev event
	size := 0
	for {
		line, err := e.line()
		if err != nil {
			return event{}, err
		}
		if size += len(line); size > e.max {
			return event{}, ErrTooLarge
		}
		if len(line) == 0 {
			if ev.data != nil || ev.id != "" || ev.retry != 0 {
				return ev, nil
			}
			size = 0
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "data":
			if ev.data != nil {
				ev.data = append(ev.data, '\n')
			}
			ev.data = append(ev.data, value...)
			if ev.data == nil {
				ev.data = []byte{}
			}
		case "id":
			if len(value) <= maxSessionID && bytes.IndexByte(value, 0) < 0 {
				ev.id = string(value)
			}
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 32); err == nil {
				ev.retry = max(time.Duration(ms)*time.Millisecond, time.Millisecond)
			}
		}
	}
}

// line reads one line, which ends with LF, CR or both.
func (e *eventReader) line() ([]byte, error) {
	var line []byte
	for {
		c, err := e.r.ReadByte()
		if err != nil {
			return nil, err
		}
		if e.left--; e.left < 0 || len(line) > e.max {
			return nil, ErrTooLarge
		}
		switch c {
		case '\r':
			if next, err := e.r.Peek(1); err == nil && next[0] == '\n' {
				_, _ = e.r.Discard(1) // it is there
			}
			return bytes.TrimPrefix(line, []byte("\ufeff")), nil
		case '\n':
			return bytes.TrimPrefix(line, []byte("\ufeff")), nil
		}
		line = append(line, c)
	}
}

// events reads a stream until the answer comes. A stream of an older revision that breaks off, but has told how to go on,
// is gone on with: that sends nothing anew.
func (x *post) events(ctx context.Context, client *http.Client, body io.Reader) (*jsonrpc.Message, error) {
	s := &stream{post: x, ctx: ctx, pause: defaultPause}
	m, err := s.read(body)
	for i := 0; i < maxResumes && errors.Is(err, errBrokenOff) && s.last != "" && !x.q.modern; i++ {
		before := s.last
		if m, err = s.resume(client); s.last != before {
			i = 0 // it gets on
		}
	}
	return m, err
}

// errBrokenOff says that a stream ended before the answer.
const errBrokenOff = sentinel("the upstream's stream ended before the answer")

// A stream is what one request is answered with, over one or more responses.
type stream struct {
	*post
	ctx       context.Context
	last      string // id of an event
	pause     time.Duration
	questions int
}

func (s *stream) read(body io.Reader) (*jsonrpc.Message, error) {
	most := s.limit + maxErrorBytes
	r := newEventReader(body, most, most+maxStreamBytes)
	for {
		ev, err := r.next()
		switch {
		case errors.Is(err, ErrTooLarge):
			return nil, unknown("the upstream's answer is too large", ErrTooLarge)
		case err != nil:
			return nil, unknown("the upstream's answer broke off", errors.Join(errBrokenOff, cause(s.ctx, err)))
		}
		if ev.id != "" {
			s.last = ev.id
		}
		if ev.retry != 0 {
			s.pause = min(ev.retry, maxPause)
		}
		if len(ev.data) == 0 {
			continue
		}
		m, err := jsonrpc.Parse(ev.data, most)
		if err != nil {
			return nil, unknown("the upstream's answer is malformed", ErrBadAnswer)
		}
		switch m.Kind {
		case jsonrpc.Notification:
			s.l.heard(m)
		case jsonrpc.Request:
			s.question(m)
		case jsonrpc.Response:
			if m.ID.Key() != s.id.Key() {
				return nil, unknown("the upstream answered what it was not asked", ErrBadAnswer)
			}
			return m, nil
		}
	}
}

// question answers a request of an upstream of an older revision: it may ask whether we live, and nothing else.
func (s *stream) question(m *jsonrpc.Message) {
	if s.questions++; s.q.modern || s.questions > maxQuestions {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, partingTime)
	defer cancel()
	_ = s.l.post(ctx, reply(m)) // an upstream that does not take it asks again or does not
}

// reply is the answer to a request of an upstream.
func reply(m *jsonrpc.Message) []byte {
	if m.Method == "ping" {
		return jsonrpc.NewResult(m.ID, []byte(`{}`))
	}
	return jsonrpc.NewError(m.ID, jsonrpc.ErrorObject(jsonrpc.MethodNotFound, "the client does not offer this method", nil))
}

// resume goes on with a stream after the last event that came.
func (s *stream) resume(client *http.Client) (*jsonrpc.Message, error) {
	t := time.NewTimer(s.pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.ctx.Done():
		return nil, unknown("the call was cancelled after it was sent", context.Cause(s.ctx))
	}
	req, err := s.l.request(s.ctx, http.MethodGet, nil, request{})
	if err != nil {
		return nil, unknown("the upstream's answer broke off", err)
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Last-Event-ID", s.last)
	res, err := client.Do(req)
	if err != nil {
		return nil, unknown("the upstream's answer broke off", errors.Join(errBrokenOff, cause(s.ctx, err)))
	}
	defer func() { _ = res.Body.Close() }() // nothing more is read from it
	if res.StatusCode != http.StatusOK {
		return nil, unknown("the upstream's answer broke off", &StatusError{Status: res.StatusCode})
	}
	return s.read(res.Body)
}
