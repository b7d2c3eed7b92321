package session

import (
	"cmp"
	"slices"
	"time"

	"lilac/internal/foundation/chat"
)

// Consumed is what one request has used.
type Consumed struct {
	CreatedAt     int64 // Unix milliseconds
	Model, Client string
	Usage         chat.Usage
}

// Share is what the requests of a day, a model, or a client have used together.
type Share struct {
	Name     string     `json:"name"`
	Requests int        `json:"requests"`
	Usage    chat.Usage `json:"usage"`
}

// Consumption sums up requests: by day ("2006-01-02", oldest first, also days without requests), by
// model, and by client, the most expensive first.
type Consumption struct {
	Days    []Share `json:"days"`
	Models  []Share `json:"models"`
	Clients []Share `json:"clients"`
	// Partial means that there were more requests than could be read; the oldest are missing.
	Partial bool `json:"partial,omitempty"`
}

// FirstDay returns the beginning of the period of days that ends with the day of now.
func FirstDay(now time.Time, days int) time.Time {
	y, m, d := now.Date()
	return time.Date(y, m, d-days+1, 0, 0, 0, 0, now.Location())
}

// SumUp sums up the requests since [FirstDay]. Each counts for the day on which it was created.
func SumUp(requests []Consumed, now time.Time, days int) Consumption {
	byDay, byModel, byClient := map[string]*Share{}, map[string]*Share{}, map[string]*Share{}
	add := func(to map[string]*Share, name string, r Consumed) {
		if to[name] == nil {
			to[name] = &Share{Name: name}
		}
		to[name].Requests++
		to[name].Usage = to[name].Usage.Add(r.Usage)
	}
	for _, r := range requests {
		add(byDay, time.UnixMilli(r.CreatedAt).In(now.Location()).Format(time.DateOnly), r)
		add(byModel, r.Model, r)
		add(byClient, r.Client, r)
	}
	out := Consumption{Models: ordered(byModel), Clients: ordered(byClient)}
	y, m, d := FirstDay(now, days).Date()
	for i := range days {
		name := time.Date(y, m, d+i, 12, 0, 0, 0, now.Location()).Format(time.DateOnly)
		out.Days = append(out.Days, *cmp.Or(byDay[name], &Share{Name: name}))
	}
	return out
}

func ordered(by map[string]*Share) []Share {
	out := make([]Share, 0, len(by))
	for _, s := range by {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Usage.CostMicros, a.Usage.CostMicros), cmp.Compare(b.Usage.Tokens(), a.Usage.Tokens()), cmp.Compare(a.Name, b.Name))
	})
	return out
}
