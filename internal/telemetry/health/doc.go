// Package health says whether the program works, from work that was observed:
// each part has a probe that makes it do something, again and again, and the
// report holds what came of it. A probe that does not come back is a failure
// too, and so is a report that nobody renews. While nothing is done there is
// nothing to judge, and the parts are left alone until something is done again
// or the report is read. Reading it costs at most one look for all who read it
// within [DefaultEvery], so that it may be public.
package health
