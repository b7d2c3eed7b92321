package session

import (
	"cmp"
	"slices"
	"time"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/order"
)

// Consumed is what one request has used, or one call of a model without a request.
type Consumed struct {
	CreatedAt     int64 // Unix milliseconds
	Model, Client string
	SessionID     string
	// Rule is the rule that started the request, or "".
	Rule string
	// TookMs is the time from the start of a request that is done to its end, or 0.
	TookMs int64
	// Purpose is what a call without a request was for, or "" for a request.
	Purpose string
	Usage   chat.Usage
}

// The purposes of calls without a request.
const (
	PurposeTitle   = "title"   // naming a conversation
	PurposeGate    = "gate"    // deciding whether a message is meant for the agent
	PurposeProgram = "program" // a program that uses a model without the agent
)

// Latency is the time of requests from their start to their end, in milliseconds.
type Latency struct {
	MedianMs int64 `json:"medianMs"`
	P95Ms    int64 `json:"p95Ms"`
}

// Share is what the requests of a day, a model, a client, a conversation, or a rule have used together.
type Share struct {
	Name string `json:"name"`
	// Title is the title of the conversation whose id is the name; the store knows it.
	Title    string     `json:"title,omitempty"`
	Requests int        `json:"requests"`
	Usage    chat.Usage `json:"usage"`
	// Latency is missing if no request is done.
	Latency *Latency `json:"latency,omitempty"`
}

// ShareGroup is a share with its days; days without usage are missing, as are those of small groups.
type ShareGroup struct {
	Share
	Days []Share `json:"days,omitempty"`
}

const (
	// maxGroups bounds the groups of a kind; the others are summed up in one, called OtherGroups.
	maxGroups = 50
	// maxDaily bounds the groups whose days are listed.
	maxDaily = 6
)

// OtherGroups is the name of the group for what all smaller groups have used.
const OtherGroups = "*"

// Consumption sums up requests: by day ("2006-01-02", oldest first, also days without requests), by
// model, by client, by channel or other conversation, and by rule, the most expensive first. Calls
// without a request count for all of them, but are no requests.
type Consumption struct {
	Days     []Share      `json:"days"`
	Models   []ShareGroup `json:"models"`
	Clients  []ShareGroup `json:"clients"`
	Channels []ShareGroup `json:"channels"`
	Rules    []ShareGroup `json:"rules"`
	// Purposes sums up the calls without a request.
	Purposes []Share `json:"purposes"`
	// Partial means that there were more requests than could be read; the oldest are missing.
	Partial bool `json:"partial,omitempty"`
}

// FirstDay returns the beginning of the period of days that ends with the day of now.
func FirstDay(now time.Time, days int) time.Time {
	y, m, d := now.Date()
	return time.Date(y, m, d-days+1, 0, 0, 0, 0, now.Location())
}

// adding is a share to which requests are added.
type adding struct {
	Share
	took []int64
	days map[string]*adding
}

type groups map[string]*adding

func (g groups) add(name string, c Consumed) *adding {
	a := g[name]
	if a == nil {
		a = &adding{Share: Share{Name: name}, days: groups{}}
		g[name] = a
	}
	if c.Purpose == "" {
		a.Requests++
	}
	a.Usage = a.Usage.Add(c.Usage)
	if c.TookMs > 0 {
		a.took = append(a.took, c.TookMs)
	}
	return a
}

// share completes the sum.
func (a *adding) share() Share {
	if n := len(a.took); n > 0 {
		slices.Sort(a.took)
		a.Latency = &Latency{MedianMs: a.took[n/2], P95Ms: a.took[n*95/100]}
	}
	return a.Share
}

// SumUp sums up what was used since [FirstDay]. A request counts for the day on which it was created.
func SumUp(used []Consumed, now time.Time, days int) Consumption {
	byDay, byModel, byClient, byChannel, byRule, byPurpose := groups{}, groups{}, groups{}, groups{}, groups{}, groups{}
	for _, c := range used {
		day := time.UnixMilli(c.CreatedAt).In(now.Location()).Format(time.DateOnly)
		byDay.add(day, c)
		for _, group := range []*adding{
			byModel.add(c.Model, c), byClient.add(c.Client, c), byChannel.add(c.SessionID, c), byRule.add(c.Rule, c),
		} {
			groups(group.days).add(day, c)
		}
		if c.Purpose != "" {
			byPurpose.add(c.Purpose, Consumed{Usage: c.Usage}) // each call counts
		}
	}
	out := Consumption{Models: byModel.ordered(), Clients: byClient.ordered(), Channels: byChannel.ordered(), Rules: byRule.ordered(), Purposes: []Share{}}
	for _, p := range byPurpose.ordered() {
		out.Purposes = append(out.Purposes, p.Share)
	}
	y, m, d := FirstDay(now, days).Date()
	for i := range days {
		name := time.Date(y, m, d+i, 12, 0, 0, 0, now.Location()).Format(time.DateOnly)
		out.Days = append(out.Days, cmp.Or(byDay[name], &adding{Share: Share{Name: name}}).share())
	}
	return out
}

// ordered returns the groups, the most expensive first, and the rest as one.
func (g groups) ordered() []ShareGroup {
	all := make([]*adding, 0, len(g))
	for _, a := range g {
		all = append(all, a)
	}
	order.By(all, func(a, b *adding) int {
		return cmp.Or(cmp.Compare(b.Usage.CostMicros, a.Usage.CostMicros), cmp.Compare(b.Usage.Tokens(), a.Usage.Tokens()), cmp.Compare(a.Name, b.Name))
	})
	if len(all) > maxGroups {
		rest := &adding{Share: Share{Name: OtherGroups}}
		for _, a := range all[maxGroups:] {
			rest.Requests += a.Requests
			rest.Usage = rest.Usage.Add(a.Usage)
			rest.took = append(rest.took, a.took...)
		}
		all = append(all[:maxGroups:maxGroups], rest)
	}
	out := make([]ShareGroup, 0, len(all))
	for i, a := range all {
		group := ShareGroup{Share: a.share()}
		if i < maxDaily {
			for _, day := range a.days {
				group.Days = append(group.Days, day.share())
			}
			order.By(group.Days, func(a, b Share) int { return cmp.Compare(a.Name, b.Name) })
		}
		out = append(out, group)
	}
	return out
}
