package router

import "slices"

// told notes what the model has: it waits for nothing any more.
func (d *decision) told(t Told) {
	d.unbuffer(t.MessageIDs)
	if d.waits(t.RequestID) {
		i := d.index(t.RequestID)
		told := append(slices.Clone(d.Requests[i].Told), t.MessageIDs...)
		d.Requests[i].Told = told[max(0, len(told)-maxTold):]
	}
}

// joined notes that a message is answered with a request that waits and had it
// from elsewhere, as long as that can still be withdrawn.
func (d *decision) joined(m Message) {
	wakes := m.Mode != Mention || m.Mentions || m.ReplyToUs
	i := slices.IndexFunc(d.Requests, func(r Request) bool { return !r.Running && slices.Contains(r.Told, m.ID) })
	if wakes && i >= 0 && len(d.Requests[i].With) < maxTold {
		d.Requests[i].With = append(slices.Clone(d.Requests[i].With), Question{m.ID, m.RequestID})
	}
}

// untell takes back what the model would have been told for a request. What was
// to be answered along with it then is a request of its own.
func (d *decision) untell(i int) {
	r := d.Requests[i]
	d.Requests[i].Told, d.Requests[i].With = nil, nil
	if len(r.Told) > 0 {
		d.effects = append(d.effects, Untell{r.Told})
	}
	for _, q := range r.With {
		d.begin(q.RequestID, []string{q.ID})
	}
}
