package redisbus

import "github.com/redis/rueidis"

// The keys below the prefix: "claim" (a hash: who may write here), "topics" (a
// set: the topics that age), and for each topic "s:" its stream, "i:" a hash
// from event id to entry id, and "m:" a hash of what is known of it:
//
//	n  how many events it ever had      l  the newest entry
//	t  everything up to here is gone    a  when its expiry was last put off (ms)

// What the scripts answer when they refuse.
const (
	// refusedStore: the prefix belongs to another store, which follows.
	refusedStore = "LILACSTORE"
	// refusedEpoch: another epoch holds the prefix; it follows, or nothing
	// when Redis knows of none.
	refusedEpoch = "LILACEPOCH"
	// refusedLost: Redis lost batches; the newest that it has follows.
	refusedLost = "LILACLOST"
)

// claimScript takes the prefix. It answers with the newest batch, or -1 when
// Redis knew nothing of us.
//
//	KEYS claim   ARGV store, epoch
var claimScript = rueidis.NewLuaScript(`
local c = redis.call('HMGET', KEYS[1], 'store', 'epoch', 'batch')
if c[1] and c[1] ~= ARGV[1] then return redis.error_reply('LILACSTORE ' .. c[1]) end
if c[2] and tonumber(c[2]) >= tonumber(ARGV[2]) then return redis.error_reply('LILACEPOCH ' .. c[2]) end
redis.call('HSET', KEYS[1], 'store', ARGV[1], 'epoch', ARGV[2], 'step', '0')
if not c[3] then redis.call('HSET', KEYS[1], 'batch', '0') end
return c[3] and tonumber(c[3]) or -1
`)

// appendScript appends events and answers with their entries, "" for one that
// was to be restored and cannot be any more. An id that the topic holds is not
// added again; its entry is the answer. Batches are counted in the field
// "batch", the steps of a restoration in "step". The index of ids is asked and
// written once, not for each event: half of the commands of the script.
//
//	KEYS claim, topics, then stream, ids and meta of each topic
//	ARGV epoch, field, least, number, now (ms), number of topics,
//	     then name, age of the stream (ms, 0 is for ever), age of the meta (ms) of each topic,
//	     then topic, entry ("" for the next one), id, head, data of each event
var appendScript = rueidis.NewLuaScript(`
local c = redis.call('HMGET', KEYS[1], 'epoch', ARGV[2])
if c[1] ~= ARGV[1] then return redis.error_reply('LILACEPOCH ' .. (c[1] or '')) end
local have = tonumber(c[2])
if have < tonumber(ARGV[3]) then return redis.error_reply('LILACLOST ' .. c[2]) end
if tonumber(ARGV[4]) > have then redis.call('HSET', KEYS[1], ARGV[2], ARGV[4]) end
local now, m = ARGV[5], tonumber(ARGV[6])
local topics = {}
for i = 1, m do
  local k, a = 3 * i, 3 * i + 4
  local t = {stream = KEYS[k], ids = KEYS[k+1], meta = KEYS[k+2], ttl = tonumber(ARGV[a+1]), keep = ARGV[a+2]}
  local v = redis.call('HMGET', t.meta, 'n', 'l', 'a')
  t.n, t.last, t.refreshed = tonumber(v[1] or '0'), v[2], v[3]
  t.fresh = not v[1]
  if t.ttl == 0 then
    if t.fresh then redis.call('SADD', KEYS[2], ARGV[a]) end
  elseif redis.call('EXISTS', t.stream) == 0 then
    t.refreshed = false
    if t.last then redis.call('HSET', t.meta, 't', t.last) end
  end
  if t.fresh then -- unless what was known of it was evicted
    local newest = redis.call('XREVRANGE', t.stream, '+', '-', 'COUNT', 1)[1]
    if newest then t.n, t.last, t.fresh = tonumber(string.match(newest[1], '-(%d+)$')), newest[1], false end
  end
  t.asked, t.held, t.added = {}, {}, {}
  topics[i] = t
end
local first = 7 + 3 * m
for j = first, #ARGV, 5 do
  local t = topics[tonumber(ARGV[j])]
  t.asked[#t.asked+1] = ARGV[j+2]
end
for i = 1, m do
  local t = topics[i]
  for k = 1, #t.asked, 500 do
    local held = redis.call('HMGET', t.ids, unpack(t.asked, k, math.min(k + 499, #t.asked)))
    for x = 1, #held do t.held[t.asked[k+x-1]] = held[x] end
  end
end
local function keep()
  for i = 1, m do
    local t = topics[i]
    for k = 1, #t.added, 1000 do
      redis.call('HSET', t.ids, unpack(t.added, k, math.min(k + 999, #t.added)))
    end
    if t.changed then
      redis.call('HSET', t.meta, 'n', string.format('%.0f', t.n), 'l', t.last)
      if t.ttl > 0 and (not t.refreshed or tonumber(now) - tonumber(t.refreshed) > 600000) then
        redis.call('PEXPIRE', t.stream, string.format('%.0f', t.ttl))
        redis.call('PEXPIRE', t.ids, string.format('%.0f', t.ttl))
        redis.call('PEXPIRE', t.meta, t.keep)
        redis.call('HSET', t.meta, 'a', now)
      end
    end
  end
end
local out, try = {}, redis.pcall
local epoch = ARGV[1] .. '-' -- numbers of events are far below where Lua writes an exponent
for j = first, #ARGV, 5 do
  local t, pos, id = topics[tonumber(ARGV[j])], ARGV[j+1], ARGV[j+2]
  local held = t.held[id]
  if held then
    out[#out+1] = held
  else
    local given, n = pos ~= '', t.n + 1
    if given then n = tonumber(string.match(pos, '-(%d+)$')) else pos = epoch .. n end
    local ok = try('XADD', t.stream, pos, 'i', id, 'a', now, 'h', ARGV[j+3], 'd', ARGV[j+4])
    if type(ok) == 'table' and ok.err then
      if not given then
        keep()
        return ok
      end
      out[#out+1] = ''
    else
      if t.fresh then
        local before = string.match(pos, '^(%d+)-') .. '-' .. string.format('%.0f', n - 1)
        redis.call('HSET', t.meta, 't', before)
        t.fresh = false
      end
      if n > t.n then t.n = n end
      local added = t.added
      local k = #added
      t.last, t.changed, t.held[id], added[k+1], added[k+2] = pos, true, pos, id, pos
      out[#out+1] = pos
    end
  end
end
keep()
return out
`)

// restoredScript ends a restoration: from here on batches are counted.
//
//	KEYS claim   ARGV epoch, steps, batch
var restoredScript = rueidis.NewLuaScript(`
local c = redis.call('HMGET', KEYS[1], 'epoch', 'step')
if c[1] ~= ARGV[1] then return redis.error_reply('LILACEPOCH ' .. (c[1] or '')) end
if c[2] ~= ARGV[2] then return redis.error_reply('LILACLOST ' .. (c[2] or '')) end
redis.call('HSET', KEYS[1], 'batch', ARGV[3])
return 1
`)

// trimScript removes the oldest entries of a topic, as far as every group has
// committed them and as long as they are older than an age. It looks at a
// limited number and answers with how many it removed and the last of them.
//
//	KEYS claim, stream, ids, meta   ARGV epoch, floor, appended before (ms), limit
var trimScript = rueidis.NewLuaScript(`
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if epoch ~= ARGV[1] then return redis.error_reply('LILACEPOCH ' .. (epoch or '')) end
local entries = redis.call('XRANGE', KEYS[2], '-', ARGV[2], 'COUNT', ARGV[4])
local ids, last = {}, ''
for i = 1, #entries do
  local f = entries[i][2]
  if f[3] ~= 'a' or tonumber(f[4]) >= tonumber(ARGV[3]) then break end
  ids[#ids+1], last = f[2], entries[i][1]
end
if #ids == 0 then return {0, ''} end
redis.call('HDEL', KEYS[3], unpack(ids))
local e, n = string.match(last, '^(%d+)-(%d+)$')
redis.call('XTRIM', KEYS[2], 'MINID', '=', e .. '-' .. string.format('%.0f', tonumber(n) + 1))
redis.call('HSET', KEYS[4], 't', last)
return {#ids, last}
`)

// verifyScript answers with entries of a topic, with where the index has the
// event of each, and with how many entries there are and how many ids. A stream
// and its index expire one after the other: without a stream there is nothing.
//
//	KEYS stream, ids   ARGV from, limit
var verifyScript = rueidis.NewLuaScript(`
if redis.call('EXISTS', KEYS[1]) == 0 and redis.call('PTTL', KEYS[2]) >= 0 then return {{}, {}, 0, 0} end
local entries = redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])
local places = {}
for i = 1, #entries do
  local f = entries[i][2]
  places[i] = f[1] == 'i' and redis.call('HGET', KEYS[2], f[2])
end
return {entries, places, redis.call('XLEN', KEYS[1]), redis.call('HLEN', KEYS[2])}
`)
