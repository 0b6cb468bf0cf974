package counterfoil_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/counterfoil/counterfoil"
)

func TestCanonicalize(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, want string }{
		{"white space", " {\t\"a\" :\r\n[ 1 , 2 ] } \n", `{"a":[1,2]}`},
		{"members sorted", `{"b":1,"a":2}`, `{"a":2,"b":1}`},
		{"members of inner objects sorted", `[{"b":{"d":1,"c":2},"a":[{"z":0,"y":0}]}]`, `[{"a":[{"y":0,"z":0}],"b":{"c":2,"d":1}}]`},
		{"a name that begins another", `{"aa":1,"a":2,"":3}`, `{"":3,"a":2,"aa":1}`},
		{"long names that differ late", `{"0123456789b":1,"0123456789a":2}`, `{"0123456789a":2,"0123456789b":1}`},
		{"names like indexes have no order of their own", `{"10":1,"2":2,"!":4,"01":5,"a":3}`, `{"!":4,"01":5,"10":1,"2":2,"a":3}`},
		{"names sorted by what they are, not how written", `{"\u0062":1,"a":2}`, `{"a":2,"b":1}`},
		{"name with a zero byte", `{"a\u0000":1,"a":2}`, `{"a":2,"a\u0000":1}`},
		{"escaped and plain control characters in names", `{"\t":1,"\n":2,"\u0001":3,"\\":4,"\"":5,"!":6}`, `{"\u0001":3,"\t":1,"\n":2,"!":6,"\"":5,"\\":4}`},
		{"UTF-16 order", `{"\ufb33":1,"\ud83d\ude00":2,"\u20ac":3,"1":4,"\r":5,"\u0080":6,"\u00f6":7}`,
			"{\"\\r\":5,\"1\":4,\"\u0080\":6,\"\u00f6\":7,\"\u20ac\":3,\"\U0001f600\":2,\"\ufb33\":1}"},
		{"surrogates before U+FFFD, decomposed before composed", "{\"😀\":1,\"\uFFFD\":2,\"\u00e9\":3,\"e\u0301\":4}",
			"{\"e\u0301\":4,\"\u00e9\":3,\"😀\":1,\"\uFFFD\":2}"},
		{"two characters beyond the BMP", `{"\ud83d\ude01":1,"\ud83d\ude00":2,"\ud83c\udfff":3}`, "{\"🏿\":3,\"😀\":2,\"😁\":1}"},
		{"string escapes", `"\u0000\u0007\b\f\n\r\t\u001f\"\\\/\u007f\u2028\u2029<>&"`, "\"\\u0000\\u0007\\b\\f\\n\\r\\t\\u001f\\\"\\\\/\u007f\u2028\u2029<>&\""},
		{"surrogate pair", `"\uD83D\uDE00"`, `"😀"`},
		{"no normal form is imposed", `["caf\u00e9","cafe\u0301"]`, "[\"caf\u00e9\",\"cafe\u0301\"]"},
		{"numbers at the turns of the format",
			`{"a":1e21,"b":999999999999999900000,"c":0.000001,"d":1e-7,"e":4.50,"f":100E-2,"g":-0,"h":333333333.33333329,"i":1e23,"j":5e-324}`,
			`{"a":1e+21,"b":999999999999999900000,"c":0.000001,"d":1e-7,"e":4.5,"f":1,"g":0,"h":333333333.3333333,"i":1e+23,"j":5e-324}`},
		{"numbers of RFC 8785", `[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001]`, `[333333333.3333333,1e+30,4.5,0.002,1e-27]`},
		{"numbers rounded", `[9007199254740993,-9007199254740993,0.1000000000000000055511151231257827,1e-400]`, `[9007199254740992,-9007199254740992,0.1,0]`},
		{"extremes", `[1.7976931348623157e308,-1.7976931348623157E+308,2.2250738585072014e-308,4.9e-324]`,
			`[1.7976931348623157e+308,-1.7976931348623157e+308,2.2250738585072014e-308,5e-324]`},
		{"scalars", `[null,true,false,""]`, `[null,true,false,""]`},
		{"empty", `[{},[],{"a":{}}]`, `[{},[],{"a":{}}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := counterfoil.Canonicalize([]byte(c.in))
			noError(t, err)
			if string(got) != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			long, err := counterfoil.Rewrite(got)
			noError(t, err)
			if !counterfoil.IsCanonical(got) || !bytes.Equal(long, got) || counterfoil.IsCanonical([]byte(c.in)) != (c.in == c.want) {
				t.Errorf("the short cut and the long way differ: %s", long)
			}
			again, err := counterfoil.Canonicalize(got)
			noError(t, err)
			if !bytes.Equal(again, got) {
				t.Errorf("the canonical form is no fixed point: %s", again)
			}
		})
	}
}

// Every bit pattern class of RFC 8785's appendix B.
func TestCanonicalize_printsDoublesAsECMAScript(t *testing.T) {
	t.Parallel()
	for bits, want := range map[uint64]string{
		0x0000000000000000: "0", 0x8000000000000000: "0", 0x0000000000000001: "5e-324", 0x8000000000000001: "-5e-324",
		0x7fefffffffffffff: "1.7976931348623157e+308", 0xffefffffffffffff: "-1.7976931348623157e+308",
		0x4340000000000000: "9007199254740992", 0xc340000000000000: "-9007199254740992", 0x4430000000000000: "295147905179352830000",
		0x44b52d02c7e14af5: "9.999999999999997e+22", 0x44b52d02c7e14af6: "1e+23", 0x44b52d02c7e14af7: "1.0000000000000001e+23",
		0x444b1ae4d6e2ef4e: "999999999999999700000", 0x444b1ae4d6e2ef4f: "999999999999999900000", 0x444b1ae4d6e2ef50: "1e+21",
		0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7", 0x3eb0c6f7a0b5ed8d: "0.000001", 0x41b3de4355555553: "333333333.3333332",
		0x41b3de4355555554: "333333333.33333325", 0x41b3de4355555555: "333333333.3333333", 0x41b3de4355555556: "333333333.3333334",
		0x41b3de4355555557: "333333333.33333343", 0xbecbf647612f3696: "-0.0000033333333333333333", 0x43143ff3c1cb0959: "1424953923781206.2",
	} {
		// 17 significant digits name a double exactly.
		in := fmt.Sprintf("%.17g", math.Float64frombits(bits))
		got, err := counterfoil.Canonicalize([]byte(in))
		noError(t, err)
		if string(got) != want {
			t.Errorf("%#x, written %s: got %s, want %s", bits, in, got, want)
		}
	}
}

func TestCanonicalize_rejects(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, path, msg string }{
		{"nothing", "", "", "not strict JSON"},
		{"white space alone", " \n", "", "not strict JSON"},
		{"half a document", `{"a":[1`, "/a", "not strict JSON"},
		{"byte order mark", "\xef\xbb\xbf{}", "", "not strict JSON"},
		{"UTF-16", "\xff\xfe{\x00}\x00", "", "not strict JSON"},
		{"trailing data", `{} {}`, "", "not strict JSON"},
		{"trailing comma", `{"a":1} ,`, "", "not strict JSON"},
		{"trailing zero byte", "{}\x00", "", "not strict JSON"},
		{"bad UTF-8 in a string", "\"a\xffb\"", "", "not strict JSON"},
		{"overlong UTF-8", "\"\xc0\xaf\"", "", "not strict JSON"},
		{"surrogate in UTF-8", "\"\xed\xa0\x80\"", "", "not strict JSON"},
		{"bad UTF-8 in a name", "{\"a\xff\":1}", "", "not strict JSON"},
		{"lone high surrogate", `["\ud800"]`, "/0", "not strict JSON"},
		{"lone low surrogate", `{"a":"\udc00x"}`, "/a", "not strict JSON"},
		{"surrogates in the wrong order", `"\udc00\ud800"`, "", "not strict JSON"},
		{"lone surrogate in a name", `{"\ud800":1}`, "", "not strict JSON"},
		{"control character", "\"a\nb\"", "", "not strict JSON"},
		{"bad escape", `"\x41"`, "", "not strict JSON"},
		{"single quotes", `{'a':1}`, "", "not strict JSON"},
		{"comment", `{"a":1/**/}`, "", "not strict JSON"},
		{"mismatched closer", `[1}`, "", "not strict JSON"},
		{"name that is no string", `{1:2}`, "", "not strict JSON"},
		{"missing colon", `{"a" 1}`, "/a", "not strict JSON"},
		{"literal in another case", `[True]`, "/0", "not strict JSON"},
		{"NaN", `[NaN]`, "/0", "not strict JSON"},
		{"Infinity", `{"a":Infinity}`, "/a", "not strict JSON"},
		{"leading zero", `[01]`, "", "not strict JSON"},
		{"plus sign", `[+1]`, "/0", "not strict JSON"},
		{"bare fraction", `[.5]`, "/0", "not strict JSON"},
		{"hex", `[0x10]`, "", "not strict JSON"},
		{"duplicate name", `{"a":1,"b":2,"a":3}`, "/a", "twice"},
		{"duplicate name in order", `{"a":1,"a":3}`, "/a", "twice"},
		{"duplicate name by escape", `{"a":1,"\u0061":2}`, "/a", "twice"},
		{"duplicate name by another escape", `{"/":1,"\/":2}`, "/~1", "twice"},
		{"duplicate name beyond the BMP", "{\"😀\":1,\"\\ud83d\\ude00\":2}", "/😀", "twice"},
		{"duplicate name deep inside", `[0,{"x":{"k~":1,"k~":1}}]`, "/1/x/k~0", "twice"},
		{"too large for a double", `{"a":[1e400]}`, "/a/0", "too large"},
		{"too small for a double", `[0,-1e400]`, "/1", "too large"},
		{"digits without end", `1` + strings.Repeat("0", 400), "", "too large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if counterfoil.IsCanonical([]byte(c.in)) {
				t.Error("the short cut recognises it")
			}
			got, err := counterfoil.Canonicalize([]byte(c.in))
			wantCode(t, err, counterfoil.CodeInvalidInput)
			if got != nil {
				t.Errorf("bytes with an error: %q", got)
			}
			e, _ := errors.AsType[*counterfoil.Error](err)
			if e.Path != c.path || !strings.Contains(e.Msg, c.msg) {
				t.Errorf("got %q at %q, want %q at %q", e.Msg, e.Path, c.msg, c.path)
			}
		})
	}
}

func TestParseArguments_numbers(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"0": "0", "-1": "-1", "999999999999999": "999999999999999", "1000000000000000": "1000000000000000",
		"9007199254740991": "9007199254740991", "9007199254740992": "9007199254740992", "-9007199254740992": "-9007199254740992",
		"1.0": "1", "1.50": "1.5", "100E-2": "1", "0.00": "0", "0e5": "0", "0e99999999999999999999": "0", "1e21": "1e+21",
		"123456789012345680000": "123456789012345680000", "0.1": "0.1", "1e-7": "1e-7", "0.000001": "0.000001", "5e-324": "5e-324",
		"100000000000000000000": "100000000000000000000", "12e0000000000000000001": "120", "1.7976931348623157e308": "1.7976931348623157e+308",
		"0.30000000000000004": "0.30000000000000004", "1" + strings.Repeat("0", 300): "1e+300",
		"1." + strings.Repeat("0", 5000): "1", "0." + strings.Repeat("0", 20) + "25": "2.5e-21", "20.02": "20.02",
	} {
		a, err := counterfoil.ParseArguments([]byte(in))
		if err != nil {
			t.Errorf("%.40s: %v", in, err)
			continue
		}
		if got := string(a.Canonical()); got != want {
			t.Errorf("%.40s: got %s, want %s", in, got, want)
		}
		if got := a.Digest().String(); got != digestOfBytes("parameters", []byte(want)) {
			t.Errorf("%.40s: digest %s", in, got)
		}
	}
	for in, msg := range map[string]string{
		"9007199254740993": "more digits", "-9007199254740993": "more digits", "0.1000000000000000055511151231257827": "more digits",
		"333333333.33333329": "more digits", "4.9e-324": "more digits", "1e-400": "more digits", "123456789012345678": "more digits",
		"1.00000000000000000000000000000000000001": "more digits", "1e-99999999999999999999": "more digits", "-0": "minus zero",
		"-0.0": "minus zero", "-0e5": "minus zero", "-1e-400": "minus zero", "1e400": "too large", "-1e309": "too large",
		"1.7976931348623159e308": "too large", "1e99999999999999999999": "too large",
	} {
		a, err := counterfoil.ParseArguments([]byte(`{"n":[` + in + `]}`))
		wantCode(t, err, counterfoil.CodeInvalidInput)
		if e, _ := errors.AsType[*counterfoil.Error](err); a != nil || !strings.Contains(e.Msg, msg) || e.Path != "/n/0" {
			t.Errorf("%s: got %q at %q, want %q", in, e.Msg, e.Path, msg)
		}
	}
}

// What was approved with one spelling is not what is presented with another, unless the canonical form says so.
func TestParseArguments_spellings(t *testing.T) {
	t.Parallel()
	digest := func(in string) counterfoil.Digest {
		a, err := counterfoil.ParseArguments([]byte(in))
		noError(t, err)
		return a.Digest()
	}
	if digest(`{"path":"/data/caf\u00e9.txt"}`) == digest(`{"path":"/data/cafe\u0301.txt"}`) {
		t.Error("a composed and a decomposed spelling have one digest")
	}
	if digest(`{"a":1,"b":[1e1]}`) != digest(` { "b" : [10] , "\u0061" : 1.0 } `) {
		t.Error("two spellings of one value have two digests")
	}
	if digest(`{"a":null}`) == digest(`{}`) {
		t.Error("null is not absent")
	}
	if digest(`{"__proto__":1}`) == digest(`{}`) {
		t.Error("a member got lost")
	}
	if digest(`1`) == digest(`"1"`) {
		t.Error("a number and a string have one digest")
	}
}

func nested(open, close string, depth int) []byte {
	return []byte(strings.Repeat(open, depth) + "0" + strings.Repeat(close, depth))
}

func TestParseArguments_bounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		in       func(n int) []byte
		most     int
		complain string
	}{
		{"depth of arrays", func(n int) []byte { return nested("[", "]", n) }, counterfoil.MaxArgumentDepth, "deeper than 64"},
		{"depth of objects", func(n int) []byte { return nested(`{"a":`, "}", n) }, counterfoil.MaxArgumentDepth, "deeper than 64"},
		{"values", func(n int) []byte { return []byte("[0" + strings.Repeat(",0", n-2) + "]") }, counterfoil.MaxArgumentNodes, "1000000 values"},
		{"values over two arrays", func(n int) []byte { return []byte("[[0" + strings.Repeat(",0", n-4) + "],0]") }, counterfoil.MaxArgumentNodes, "1000000 values"},
		{"bytes", func(n int) []byte { return []byte(`"` + strings.Repeat("a", n-2) + `"`) }, counterfoil.MaxArgumentBytes, "larger than 16777216 bytes"},
		{"bytes of white space", func(n int) []byte { return []byte("0" + strings.Repeat(" ", n-1)) }, counterfoil.MaxArgumentBytes, "larger than 16777216 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := counterfoil.ParseArguments(c.in(c.most))
			noError(t, err)
			if !strings.HasPrefix(c.name, "bytes") { // once more the long way
				_, err = counterfoil.ParseArguments(append([]byte(" "), c.in(c.most)...))
				noError(t, err)
			}
			_, err = counterfoil.ParseArguments(c.in(c.most + 1))
			wantCode(t, err, counterfoil.CodeInvalidInput)
			if !strings.Contains(err.Error(), c.complain) {
				t.Errorf("got %v, want %q", err, c.complain)
			}
		})
	}
}

// The canonical form is bounded too: short numbers can become long ones.
func TestCanonicalize_boundsWhatItWrites(t *testing.T) {
	t.Parallel()
	_, err := counterfoil.Canonicalize([]byte("[1e20" + strings.Repeat(",1e20", 800_000) + "]"))
	wantCode(t, err, counterfoil.CodeInvalidInput)
	last := []byte(`["` + strings.Repeat("a", counterfoil.MaxArgumentBytes-20) + `",1e20]`)
	_, err = counterfoil.Canonicalize(last)
	wantCode(t, err, counterfoil.CodeInvalidInput)
}

// numbered returns n members in canonical order.
func numbered(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf(`"m%04d":0`, i)
	}
	return out
}

// Documents have tighter bounds. A policy has room for all the shapes.
func TestParse_documentBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, in, complain string
	}{
		{"a million steps", `{"steps":[` + strings.Repeat("0,", 400_000) + `0]}`, "more than 1024 entries"},
		{"a thousand members", "{" + strings.Repeat(`"a":0,`, 1024) + `"b":0}`, "more than 1024 entries"},
		{"a thousand members in order", "{" + strings.Join(numbered(1025), ",") + "}", "more than 1024 entries"},
		{"nodes", `{"a":[` + strings.Repeat("[0,0,0,0,0,0,0,0,0],", 900) + "0]}", "more than 8192 values"},
		{"depth", string(nested("[", "]", 33)), "deeper than 32"},
		{"bytes", `"` + strings.Repeat("a", 1<<20) + `"`, "larger than 1048576 bytes"},
		{"bytes of the canonical form", `{"b":1e3,"a":"` + strings.Repeat("a", 1<<20-16) + `"}`, "larger than 1048576 bytes"},
		{"nesting without end", strings.Repeat("[", 1<<20), "not strict JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := counterfoil.ParsePlan([]byte(c.in))
			wantCode(t, err, counterfoil.CodeInvalidInput)
			if !strings.Contains(err.Error(), c.complain) {
				t.Errorf("got %v, want %q", err, c.complain)
			}
		})
	}
	for _, c := range []struct{ name, in string }{ // at the limit: the fault is another one
		{"members", "{" + strings.Join(numbered(1024), ",") + "}"},
		{"entries", `{"steps":[` + strings.Repeat("0,", 1023) + `0]}`},
		{"entries, with a space", `{"steps": [` + strings.Repeat("0,", 1023) + `0]}`},
		{"members, with a space", "{ " + strings.Join(numbered(1024), ",") + "}"},
		{"bytes, out of order", `{"b":1e2,"a":"` + strings.Repeat("a", 1<<20-16) + `"}`},
		{"depth", string(nested("[", "]", 32))},
		{"bytes", `"` + strings.Repeat("a", 1<<20-2) + `"`},
	} {
		_, err := counterfoil.ParsePlan([]byte(c.in))
		wantCode(t, err, counterfoil.CodeInvalidInput)
		for _, word := range []string{"more than", "deeper", "larger"} {
			if strings.Contains(err.Error(), word) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
}

// A path in an error is a pointer into the input, escaped and cut so that it can be printed.
func TestError_path(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, path string }{
		{"pointer escapes", `{"a/b~c":{"":[0,1e999]}}`, "/a~1b~0c//1"},
		{"control characters", `{"\u001b[2J\n\u202e\u2028":1e999}`, `/\u{1b}[2J\u{a}\u{202e}\u{2028}`},
		{"emoji", `{"😀":1e999}`, "/😀"},
		{"long name", `{"` + strings.Repeat("a", 5000) + `":1e999}`, "/" + strings.Repeat("a", 255) + "…"},
		{"long path", `{"` + strings.Repeat("b", 200) + `":{"` + strings.Repeat("c", 200) + `":1e999}}`, "/" + strings.Repeat("b", 200) + "/" + strings.Repeat("c", 54) + "…"},
		{"name of wide characters", `{"` + strings.Repeat("é", 200) + `":{"x":1e999}}`, "/" + strings.Repeat("é", 128) + "…"},
		{"name cut inside a character", `{"aa` + strings.Repeat("€", 200) + `":{"x":1e999}}`, "/aa" + strings.Repeat("€", 84) + `\u{fffd}…`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := counterfoil.Canonicalize([]byte(c.in))
			e, ok := errors.AsType[*counterfoil.Error](err)
			if !ok {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.path, e.Path); d != "" {
				t.Error(d)
			}
			if !strings.Contains(e.Error(), c.path) {
				t.Error(e.Error())
			}
		})
	}
}

// A canonical result owns its memory.
func TestParseArguments_ownsItsMemory(t *testing.T) {
	t.Parallel()
	in := []byte(`{"a":"text","b":[1,2,3]}`)
	a, err := counterfoil.ParseArguments(in)
	noError(t, err)
	for i := range in {
		in[i] = 'x'
	}
	got := a.Canonical()
	got[0] = 'x'
	if string(a.Canonical()) != `{"a":"text","b":[1,2,3]}` {
		t.Errorf("got %s", a.Canonical())
	}
}

// Objects of many members are sorted by other means than those of few; the order is the same.
func TestCanonicalize_manyMembers(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]func(i int) string{
		"mixed":           func(i int) string { return fmt.Sprintf("%08x", uint32(i)*2654435761) },
		"alike":           func(i int) string { return fmt.Sprintf("%s%d", strings.Repeat("a", 20), 997*i%1000) },
		"one a prefix":    func(i int) string { return strings.Repeat("a", 997*i%1000) },
		"beyond ASCII":    func(i int) string { return "é😀" + string(rune(0xFF00-i)) + string(rune(0x1F300+i)) },
		"surrogates":      func(i int) string { return string(rune([]int{0xE000, 0x1F600, 0xD000, 0x41}[i%4] + i)) },
		"within one rune": func(i int) string { return string(rune(0x1F300 + 997*i%1000)) },
		"escapes":         func(i int) string { return fmt.Sprintf("\n\"\\%c%d", rune(i%32), 997*i%1000) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := doc{}
			var in strings.Builder
			in.WriteByte('{')
			for i := range 1000 {
				d[key(i)] = i
				if i > 0 {
					in.WriteByte(',')
				}
				quoted, err := json.Marshal(key(i))
				noError(t, err)
				fmt.Fprintf(&in, "%s:%d", quoted, i)
			}
			got, err := counterfoil.Canonicalize([]byte(in.String() + "}"))
			noError(t, err)
			if len(d) != 1000 || string(got) != string(canonical(d)) {
				t.Errorf("%d members: got %.200s", len(d), got)
			}
			in.WriteString(`,"` + strings.ReplaceAll(key(500), `"`, `\"`) + `":0}`)
			if name == "mixed" {
				_, err = counterfoil.Canonicalize([]byte(in.String()))
				wantCode(t, err, counterfoil.CodeInvalidInput)
				if !strings.Contains(err.Error(), "twice") {
					t.Error(err)
				}
			}
		})
	}
}

// What is one byte away from the canonical form is not it, or is another text's canonical form.
func TestIsCanonical_everyByte(t *testing.T) {
	t.Parallel()
	good, err := counterfoil.Canonicalize([]byte(
		`{"a":[0,-1,1.5,1e21,1e-7,true,false,null],"b\t\u0001\"\\":{"":"x\n\u001f\"\\/ é😀"},"c":{},"d":[],"é":[[],{}],"😀":12345678901234567890}`))
	noError(t, err)
	try := func(b []byte) {
		long, err := counterfoil.Rewrite(b)
		if counterfoil.IsCanonical(b) != (err == nil && bytes.Equal(long, b)) {
			t.Errorf("the short cut says %v to %q, the long way %q, %v", counterfoil.IsCanonical(b), b, long, err)
		}
	}
	for i := range good {
		for c := range 256 {
			b := bytes.Clone(good)
			b[i] = byte(c)
			try(b)
			try(slices.Insert(bytes.Clone(good), i, byte(c)))
		}
		try(good[:i])
		try(good[i:])
		try(slices.Delete(bytes.Clone(good), i, i+1))
	}
}
