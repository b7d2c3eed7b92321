// Package webui serves the web page: static files and ES modules that use the JSON API
// of the same host and no other. There is no build step: the files are embedded as they
// are, and join.go makes one script of the modules when a browser first asks for it.
//
// Handler serves them with a content security policy that allows only these files, so
// text of a model never becomes a script. Text of people, models, tools and events
// enters the document as text; the only markup is the response of POST /render. math.js
// typesets formulas with KaTeX (the folder katex has the files of its npm package), which
// is loaded with the first formula. Its elements are built one by one, because the policy
// forbids the style attributes of its HTML.
//
// app.js selects the view by the address after the # (router.js). Each view is a module:
// conversation.js, search.js, requests.js, timeline.js, tasks.js, workflows.js,
// events.js, deadletters.js, rules.js, health.js and settings.js. The state of a
// conversation is computed in state.js, reducer.js and outbox.js, which use neither the
// network nor the document. transcript.js draws the part near the scroll position, and
// pending.js the outbox. sending.js sends messages; unsent.js, drafts.js and filestore.js
// keep undelivered messages, drafts and their files across a reload. pictures.js converts
// pictures that models refuse; whole.js draws all of a conversation for paper and for the
// search of the browser. theme.js runs first,
// also in browsers that are too old for the page, and says so. hub.js shares one event stream
// between all tabs of a browser, because a browser opens only six connections to a
// host.
//
// The handler is safe for concurrent use. Only package app imports this package, which
// imports no other package of Lilac.
package webui
