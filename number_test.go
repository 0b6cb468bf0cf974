package counterfoil_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/counterfoil/counterfoil"
)

// oracle says by strconv and jsontext what ParseArguments makes of a number: its canonical form, or "" if a double's shortest
// form has another value.
func oracle(t *testing.T, number string) string {
	t.Helper()
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || !sameValue(number, strconv.FormatFloat(f, 'e', -1, 64)) {
		return ""
	}
	v := jsontext.Value(number)
	noError(t, v.Canonicalize())
	return string(v)
}

func checkNumber(t *testing.T, number string) {
	t.Helper()
	want, got := oracle(t, number), ""
	a, err := counterfoil.ParseArguments([]byte(number))
	if err == nil {
		got = string(a.Canonical())
	}
	if got != want {
		t.Errorf("%s became %q, want %q: %v", number, got, want, err)
	}
	if want != "" && !counterfoil.IsCanonical([]byte(want)) {
		t.Errorf("the short cut does not know %s", want)
	}
}

func TestParseArguments_anyDouble(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 3_000 {
		f := math.Float64frombits(r.Uint64())
		if r.IntN(3) == 0 { // the smallest, of which there are few among all
			f = math.Float64frombits(r.Uint64() >> (11 + r.IntN(53)))
		}
		if f == 0 || math.IsNaN(f) || math.IsInf(f, 0) {
			continue
		}
		for _, digits := range []int{-1, 14, 15, 16} { // the shortest form, and 15 to 17 digits
			checkNumber(t, strconv.FormatFloat(f, 'e', digits, 64))
		}
	}
}

func TestParseArguments_anyDecimal(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for range 5_000 {
		digits := fmt.Sprint(1 + r.Uint64()%uint64(math.Pow10(1+r.IntN(18))))
		exp := []int{r.IntN(60) - 30, r.IntN(680) - 340, r.IntN(40) - 340, r.IntN(30) + 290}[r.IntN(4)]
		checkNumber(t, fmt.Sprintf("%se%d", digits, exp))
		checkNumber(t, fmt.Sprintf("-%s.%s%sE%+d", digits[:1], digits[1:], strings.Repeat("0", 1+r.IntN(5)), exp))
		if exp < 0 && exp > -40 {
			checkNumber(t, "0."+strings.Repeat("0", -exp)+digits)
		}
	}
	for _, edge := range []string{
		"2.2250738585072014e-308", "2.225073858507201e-308", "2.2250738585072011e-308", "2.2250738585072009e-308", "1e-307", "9.999999999999999e-308", "4.450147717014403e-308",
		"4.4501477170144023e-308", "4.4501477170144028e-308", "1e308", "1.7976931348623157e308", "1e309", "9e307", "3e-324", "2e-324", "5e-324", "10e-324", "1e-323", "1.5e-323",
		"0.1e-322", "49e-325", "1" + strings.Repeat("0", 400) + "e-400",
		"0." + strings.Repeat("0", 400) + "1e401", "1e-00000000000000000000001", "1e+00000000000000000000001", "1e" + strings.Repeat("9", 100),
		"1e-" + strings.Repeat("9", 100), "123456789012345678e3", "100000000000000000000000000000000000000000000000001",
	} {
		checkNumber(t, edge)
		checkNumber(t, "-"+edge)
	}
	checkNumber(t, "0.000000000000000000000000000000e-999999999999999999")
}

// Rounding a few numbers takes long arithmetic. A document of nothing else would take many seconds.
func TestCanonicalize_boundsHardNumbers(t *testing.T) {
	t.Parallel()
	const most = 64
	for _, hard := range []string{"3e-324", "2.2250738585072011e-308", "-1e-400", "0.1000000000000000055511151231257827", "18446744073709551616.5"} {
		_, err := counterfoil.Canonicalize([]byte("[0" + strings.Repeat(","+hard, most) + "]"))
		noError(t, err)
		_, err = counterfoil.Canonicalize([]byte("[0" + strings.Repeat(","+hard, most+1) + "]"))
		wantCode(t, err, counterfoil.CodeInvalidInput)
		if !strings.Contains(err.Error(), "hard to round") || !strings.Contains(err.Error(), "/65") {
			t.Errorf("%s: %v", hard, err)
		}
	}
	for _, easy := range []string{"5e-324", "-0", "18446744073709551615", "9007199254740993", "0.10000000000000001", "1.0"} {
		_, err := counterfoil.Canonicalize([]byte("[0" + strings.Repeat(","+easy, 1000) + "]"))
		noError(t, err)
	}
}
