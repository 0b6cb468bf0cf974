package jsonrpc_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil/internal/jsonrpc"
)

func TestReader(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200<<10)
	in := "one\r\n\n  \r\ntwo\n" + long + "\nthree\nhalf"
	for name, r := range map[string]io.Reader{
		"whole": strings.NewReader(in), "bytewise": iotest.OneByteReader(strings.NewReader(in)), "halves": iotest.HalfReader(strings.NewReader(in)),
	} {
		rd := jsonrpc.NewReader(r, 1<<20)
		var got []string
		var err error
		for {
			var line []byte
			if line, err = rd.Next(); err != nil {
				break
			}
			got = append(got, string(line))
		}
		if diff := cmp.Diff([]string{"one", "two", long, "three"}, got); diff != "" {
			t.Errorf("%s: lines (-want +got):\n%s", name, diff)
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: ended with %v", name, err)
		}
	}
}

func TestReader_sizes(t *testing.T) {
	t.Parallel()
	const limit = 100 << 10
	for _, row := range []struct {
		size int
		end  string
		ok   bool
	}{
		{64<<10 - 1, "\n", true}, {64 << 10, "\n", true}, {64<<10 + 1, "\r\n", true}, {limit, "\n", true},
		{limit, "\r\n", true}, {limit + 1, "\n", false}, {limit + 1, "\r\n", false}, {limit + 2, "\n", false}, {5 << 20, "\n", false},
	} {
		head, tail := `{"result":"`, `","id":77}`
		line := head + strings.Repeat("y", row.size-len(head)-len(tail)) + tail
		rd := jsonrpc.NewReader(strings.NewReader(line+row.end+"next\n"), limit)
		got, err := rd.Next()
		if row.ok && (err != nil || string(got) != line) {
			t.Errorf("%d bytes: %d bytes, error %v", row.size, len(got), err)
		}
		if !row.ok {
			tl, ok := errors.AsType[*jsonrpc.TooLongError](err)
			if !ok || tl.Envelope.ID.String() != "77" || !tl.Envelope.Answer {
				t.Errorf("%d bytes: error %#v", row.size, err)
			}
		}
		if next, err := rd.Next(); err != nil || string(next) != "next" {
			t.Errorf("%d bytes: then %q, error %v", row.size, next, err)
		}
		if _, err := rd.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("%d bytes: end is %v", row.size, err)
		}
	}
}

func TestReader_endInLongLine(t *testing.T) {
	t.Parallel()
	rd := jsonrpc.NewReader(bytes.NewReader(make([]byte, 300<<10)), 1<<10)
	if _, err := rd.Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v", err)
	}
	want := errors.New("broken")
	rd = jsonrpc.NewReader(iotest.ErrReader(want), 0)
	if _, err := rd.Next(); !errors.Is(err, want) {
		t.Errorf("error %v", err)
	}
}
