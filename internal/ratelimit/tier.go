package ratelimit

import "github.com/counterfoil/counterfoil"

// A Tier is how much the principals of a tenant may ask for, each. The zero Tier is none.
type Tier string

// The tiers.
const (
	TierFree      Tier = "free"
	TierStandard  Tier = "standard"
	TierPremium   Tier = "premium"
	TierUnlimited Tier = "unlimited" // whatever is asked is allowed, and counted
)

// Tiers returns all tiers, the narrowest first.
func Tiers() []Tier { return []Tier{TierFree, TierStandard, TierPremium, TierUnlimited} }

// ParseTier reads a tier's name.
func ParseTier(s string) (Tier, error) {
	if _, ok := Tier(s).rules(); !ok {
		return "", &counterfoil.Error{Code: counterfoil.CodeInvalidInput, Msg: "this tier is not known: free, standard, premium and unlimited are"}
	}
	return Tier(s), nil
}

// Limits are a tier's numbers. All are 0 for the unlimited tier and for one that is not known.
type Limits struct {
	PerMinute int64 `json:"perMinute"` // in any 60 seconds; the bucket fills at this rate
	PerHour   int64 `json:"perHour"`
	PerDay    int64 `json:"perDay"` // in any 24 hours
	Burst     int64 `json:"burst"`  // at once
}

// Limits returns the tier's numbers.
func (t Tier) Limits() Limits {
	switch t {
	case TierFree:
		return Limits{PerMinute: 10, PerHour: 200, PerDay: 1000, Burst: 5}
	case TierStandard:
		return Limits{PerMinute: 60, PerHour: 2000, PerDay: 10_000, Burst: 15}
	case TierPremium:
		return Limits{PerMinute: 200, PerHour: 10_000, PerDay: 50_000, Burst: 50}
	case TierUnlimited:
		return Limits{}
	default:
		return Limits{}
	}
}

// rules returns what the tier means for the engine. False says that the tier is not known: nothing is allowed.
func (t Tier) rules() (rules, bool) {
	switch t {
	case TierFree, TierStandard, TierPremium, TierUnlimited:
		l := t.Limits()
		return rules{
			limit: [spans]int64{minute: l.PerMinute, hour: l.PerHour, day: l.PerDay}, counted: [spans]bool{minute: true, hour: true, day: true},
			burst: l.Burst, perMinute: l.PerMinute,
		}, true
	default:
		return rules{}, false
	}
}

// ToolLimits are how often a principal may call one tool. A tool without both is not called.
type ToolLimits struct {
	PerMinute int64
	PerSecond int64
}

// DefaultToolLimits returns the limits of calls that read or write, and none for other kinds.
func DefaultToolLimits(k Kind) ToolLimits {
	switch k {
	case KindRead:
		return ToolLimits{PerMinute: 600, PerSecond: 50}
	case KindWrite:
		return ToolLimits{PerMinute: 60, PerSecond: 10}
	case KindRequest:
		return ToolLimits{}
	default:
		return ToolLimits{}
	}
}

func (t ToolLimits) rules() (rules, bool) {
	r := rules{limit: [spans]int64{second: t.PerSecond, minute: t.PerMinute}, counted: [spans]bool{second: true, minute: true}}
	return r, 0 < t.PerSecond && 0 < t.PerMinute && t.PerSecond <= maxCount && t.PerMinute <= maxCount
}

// rules are limits as the engine takes them. A limit of 0 is none.
type rules struct {
	limit     [spans]int64
	counted   [spans]bool // windows that are kept though they may have no limit
	burst     int64
	perMinute int64 // what the bucket gets back
}

// unlimited reports whether there is no limit at all.
func (r *rules) unlimited() bool { return r.limit == [spans]int64{} && r.burst == 0 }

// interval is how long the bucket takes for one token, in nanoseconds, rounded up so that its rate is never exceeded.
func (r *rules) interval() int64 { return (60e9 + r.perMinute - 1) / r.perMinute }
