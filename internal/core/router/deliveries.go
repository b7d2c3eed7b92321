package router

import "slices"

// forward emits a Forward effect and records the messages that the model
// receives with it. It returns false if none of them can be forwarded.
func (d *decision) forward(f Forward) bool {
	f, ok := d.forwardable(f)
	if !ok {
		return false
	}
	d.emit(f)
	var received []string
	for _, id := range d.composed(f) {
		if !d.inHistory(id) {
			received = append(received, id)
			d.override(id, true)
		}
	}
	d.markDelivered(f.RequestID, received)
	return true
}

// forwardable removes messages from f that the model has received. It returns
// false if nothing is left, or if all of the rest was deleted.
func (d *decision) forwardable(f Forward) (Forward, bool) {
	if d.in.History == nil {
		return f, true
	}
	if f.Edited == 0 {
		f.MessageIDs = slices.DeleteFunc(slices.Clone(f.MessageIDs), d.inHistory)
	}
	return f, len(d.composed(f)) > 0
}

// composed returns the messages of which the model's input is composed: the
// reply chain of the last message and the rest of the burst, as far as they are
// in the cache.
func (d *decision) composed(f Forward) (ids []string) {
	if d.in.History == nil || len(f.MessageIDs) == 0 {
		return nil
	}
	chains, last := d.in.History.Chains, len(f.MessageIDs)-1
	chain := chains[f.MessageIDs[last]]
	for _, id := range f.MessageIDs[:last] {
		if len(chains[id]) > 0 && !slices.Contains(chain, id) {
			ids = append(ids, id)
		}
	}
	if len(chain) == 0 {
		return ids
	}
	return slices.Concat(chain[:len(chain)-1], ids, chain[len(chain)-1:])
}

func (d *decision) inHistory(id string) bool {
	if delivered, ok := d.delivered[id]; ok {
		return delivered
	}
	return d.in.History.Delivered[id]
}

func (d *decision) override(id string, delivered bool) {
	if d.delivered == nil {
		d.delivered = map[string]bool{}
	}
	d.delivered[id] = delivered
}

// markDelivered records the messages that the model receives for a request.
func (d *decision) markDelivered(requestID string, messageIDs []string) {
	d.unbuffer(messageIDs)
	if d.starting(requestID) {
		r := &d.Requests[d.index(requestID)]
		delivered := append(slices.Clone(r.Delivered), messageIDs...)
		r.Delivered = delivered[max(0, len(delivered)-maxDelivered):]
	}
}

// joinDelivered records that a message is answered by a queued request that
// delivered it, as long as that request can still be withdrawn.
func (d *decision) joinDelivered(m Message) {
	wakes := m.Mode != Mention || m.Mentions || m.ReplyToUs
	i := slices.IndexFunc(d.Requests, func(r Request) bool { return !r.Running && slices.Contains(r.Delivered, m.ID) })
	if wakes && i >= 0 && len(d.Requests[i].Joined) < maxDelivered {
		d.Requests[i].Joined = append(slices.Clone(d.Requests[i].Joined), Question{m.ID, m.RequestID})
		d.acknowledge(d.Requests[i].ID, m.ID)
	}
}

// takeBack removes the messages that the model would have received for a request
// from the history. Each message that joined the request becomes a request of its
// own.
func (d *decision) takeBack(i int) {
	r := d.Requests[i]
	d.Requests[i].Delivered, d.Requests[i].Joined = nil, nil
	if len(r.Delivered) > 0 {
		d.emit(Undeliver{r.Delivered})
		for _, id := range r.Delivered {
			d.override(id, false)
		}
	}
	for _, q := range r.Joined {
		d.begin(q.RequestID, []string{q.ID})
	}
}
