package session

import "slices"

// firstOpenForm returns the first form that people have to be asked about, or nil.
func (a *Active) firstOpenForm() *CallForm {
	if a == nil {
		return nil
	}
	i := slices.IndexFunc(a.Forms, func(f CallForm) bool { return f.Answer == NoAnswer })
	if i < 0 {
		return nil
	}
	return &a.Forms[i]
}

// formIndex returns the index of a form of a call, or -1.
func (a *Active) formIndex(f CallForm) int {
	return slices.IndexFunc(a.Forms, func(one CallForm) bool { return one.isOf(f.Tool, f.Call) && one.Hash == f.Hash })
}

// formNeeded notes a form. People are asked when the run reaches its next step.
func (d *decision) formNeeded(in FormNeeded) {
	if !d.isActive(in.RequestID) || d.Active.formIndex(in.Form) >= 0 {
		return
	}
	d.Active.Forms = append(d.Active.Forms, in.Form)
	if len(d.Active.Forms) > maxForms {
		d.Active.Forms = slices.Delete(d.Active.Forms, 0, 1)
	}
	d.emit(WakeRun{RequestID: in.RequestID})
}

// formsUsed forgets the answers for a call that has ended.
func (d *decision) formsUsed(in FormsUsed) {
	if d.isActive(in.RequestID) {
		d.Active.Forms = slices.DeleteFunc(d.Active.Forms, func(f CallForm) bool { return f.isOf(in.Tool, in.Call) })
	}
}

// settleForm notes the answer to a form for the call that waits for it.
func (d *decision) settleForm(f CallForm, answer Answer, reply string) {
	if i := d.Active.formIndex(f); i >= 0 {
		d.Active.Forms[i].Answer, d.Active.Forms[i].Reply = answer, reply
	}
}
