package redisbus

import "github.com/redis/rueidis"

// The keys below the prefix: "claim" (a hash: who may write here), "topics" (a
// set: the topics that age), and for each topic "s:" its stream and "m:" a hash of
// what is known of it:
//
//	t  everything up to here is gone
//
// Topics other than outputs have also "i:", a hash from event id to entry id, and in "m:"
//
//	n  how many events it ever had    l  the newest entry
//
// An entry has two fields: "i" is the event's id, "e" is what sealed makes.

// What the scripts answer when they refuse.
const (
	// refusedStore: the prefix belongs to another store, which follows.
	refusedStore = "LILACSTORE"
	// refusedEpoch: another epoch holds the prefix; it follows, or nothing
	// when Redis knows of none.
	refusedEpoch = "LILACEPOCH"
	// refusedLost: Redis lost batches; the newest that it has follows.
	refusedLost = "LILACLOST"
	// refusedStale: another output has a stream than was believed.
	refusedStale = "LILACSTALE"
)

// rightsScript answers with the commands that we use and that the user may not
// run on a key of ours, or that the server does not have.
//
//	ARGV key
var rightsScript = rueidis.NewLuaScript(`
local missing, key = {}, ARGV[1]
if not redis.acl_check_cmd then return missing end
for _, command in ipairs({
  {'EVAL', 'return 1', '0'}, {'EXISTS', key}, {'HDEL', key, 'f'}, {'HGET', key, 'f'}, {'HLEN', key}, {'HMGET', key, 'f'}, {'HSET', key, 'f', 'v'},
  {'PEXPIRE', key, '1'}, {'PTTL', key}, {'SADD', key, 'm'}, {'SCARD', key}, {'SMEMBERS', key}, {'XADD', key, '*', 'f', 'v'}, {'XLEN', key},
  {'XRANGE', key, '-', '+'}, {'XREVRANGE', key, '+', '-'}, {'XTRIM', key, 'MINID', '1'},
}) do
  local known, may = pcall(redis.acl_check_cmd, unpack(command))
  if not known or not may then missing[#missing+1] = command[1] end
end
return missing
`)

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

// appendScript appends events. Batches are counted in the field "batch"; the steps of a
// restoration are in "step".
//
// The events of an output have their places when they come (see ledger). In a careful
// batch some of them may be in Redis at these places, because it was sent before and
// its answer got lost, or is a restoration's. Otherwise it is first looked at whether
// the outputs that are known to have a stream do, and those that are not do not:
// when it is not so, nothing is appended.
//
// Other topics have an index of their ids: an id that is in it is not added again, and
// an event gets its place here, but in a restoration. The index is
// asked and written for many events at once, and only the first place of a
// topic is written out: both make the script cheaper by a third.
//
// It answers with how many events were left out, because their stream goes on behind
// their places. Then, for each topic with an index, come the number of events that it had
// and the number of exceptions, and the exceptions: the index of an event, from 0,
// that the topic held before, and its place.
//
//	KEYS claim, topics, the streams of known outputs that get one event, of known ones that get more, and of others, the metas
//	     of the others, the streams whose expiry is put off, then stream, ids and meta of each topic with an index
//	ARGV epoch, field, least, number, how many of each of these kinds of outputs, how many streams are put off,
//	     careful (1), age of a stream (ms), age of a meta (ms),
//	     then, for each output that gets one event: its place, id and entry;
//	     for each that gets more: place of the first, number of events, id and entry of each;
//	     for each other output: up to where its events are gone or "", number of events, place, id and entry of each;
//	     for each topic with an index: name, number of events, the id of each, the entry of each, and in a restoration the place of each
var appendScript = rueidis.NewLuaScript(`
local call, epoch, field = redis.call, ARGV[1], ARGV[2]
local c = call('HMGET', KEYS[1], 'epoch', field)
if c[1] ~= epoch then return redis.error_reply('LILACEPOCH ' .. (c[1] or '')) end
local have = tonumber(c[2])
if have < tonumber(ARGV[3]) then return redis.error_reply('LILACLOST ' .. c[2]) end
local single, several, others, refreshed, careful = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9] == '1'
local known = single + several
local first = 3 + known
-- numbers of events are far below where Lua writes an exponent by itself
local function number(n) return string.format('%.0f', n) end
local function existing(from, to)
  local n = 0
  for k = from, to, 500 do n = n + call('EXISTS', unpack(KEYS, k, math.min(k + 499, to))) end
  return n
end
if not careful and (existing(3, first - 1) < known or existing(first, first + others - 1) > 0) then
  return redis.error_reply('LILACSTALE')
end
local restoring, following, at, left = field == 'step', epoch .. '-*', 12, 0
for key = 3, 2 + single do
  call('XADD', KEYS[key], ARGV[at], 'i', ARGV[at+1], 'e', ARGV[at+2])
  at = at + 3
end
for key = 3 + single, first - 1 do
  local stream, place, last = KEYS[key], ARGV[at], at + 1 + 2 * ARGV[at+1]
  for i = at + 2, last, 2 do
    call('XADD', stream, place, 'i', ARGV[i], 'e', ARGV[i+1])
    place = following -- the place after the one that was given out last
  end
  at = last + 1
end
for key = first, first + others - 1 do
  local stream, meta, last, newest = KEYS[key], KEYS[key+others], at + 1 + 3 * ARGV[at+1], nil
  local function gone(place)
    call('HSET', meta, 't', place)
    call('PEXPIRE', meta, ARGV[11])
  end
  if careful then newest = call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1] end
  if newest then
    newest = tonumber(string.match(newest[1], '-(%d+)$'))
  elseif ARGV[at] ~= '' then
    gone(ARGV[at])
  end
  for i = at + 2, last, 3 do
    local added = redis.pcall('XADD', stream, ARGV[i], 'i', ARGV[i+1], 'e', ARGV[i+2])
    if type(added) == 'table' then
      if not careful or not string.find(added.err, 'equal or smaller', 1, true) then return added end
      local entry = call('XRANGE', stream, ARGV[i], ARGV[i])[1]
      if not entry or entry[2][2] ~= ARGV[i+1] then left = left + 1 end
    elseif careful then -- what should stand before it is lost
      local e, n = string.match(added, '^(%d+)-(%d+)$')
      if newest and tonumber(n) > newest + 1 then gone(e .. '-' .. number(tonumber(n) - 1)) end
      newest = tonumber(n)
    end
  end
  call('PEXPIRE', stream, ARGV[10])
  at = last + 1
end
first = first + 2 * others
for key = first, first + refreshed - 1 do call('PEXPIRE', KEYS[key], ARGV[10]) end
local out = {left}
for key = first + refreshed, #KEYS, 3 do
  local stream, ids, meta = KEYS[key], KEYS[key+1], KEYS[key+2]
  local v = call('HMGET', meta, 'n', 'l')
  local n, last, fresh, failure = tonumber(v[1] or '0'), v[2], not v[1], nil
  if fresh then
    call('SADD', KEYS[2], ARGV[at])
    local newest = call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
    if newest then -- what was known of it was evicted
      n, last, fresh = tonumber(string.match(newest[1], '-(%d+)$')), newest[1], false
    end
  end
  local count = tonumber(ARGV[at+1])
  local id, entry, place = at + 1, at + 1 + count, at + 1 + 2 * count
  at = id + (restoring and 3 or 2) * count + 1
  local reply, exceptions, changed, seen = #out + 1, 0, false, {}
  out[reply] = n
  out[reply+1] = 0
  local ahead -- the place after the one that was given out last
  for from = 1, count, 500 do
    local to = math.min(from + 499, count)
    local held, added, a = call('HMGET', ids, unpack(ARGV, id + from, id + to)), {}, 0
    for i = from, to do
      local e = ARGV[id+i]
      local pos = held[i-from+1] or seen[e]
      if not pos then
        local m = n + 1
        if restoring then
          pos = ARGV[place+i]
          m = tonumber(string.match(pos, '-(%d+)$'))
        else
          pos = ahead or epoch .. '-' .. number(m)
          ahead = following
        end
        pos = redis.pcall('XADD', stream, pos, 'i', e, 'e', ARGV[entry+i])
        if type(pos) == 'table' then
          if not restoring or not string.find(pos.err, 'equal or smaller', 1, true) then
            failure = pos
            break
          end
          out[1] = out[1] + 1
        else
          if fresh then
            call('HSET', meta, 't', string.match(pos, '^(%d+)-') .. '-' .. number(m - 1))
            fresh = false
          end
          if m > n then n = m end
          last, changed, seen[e] = pos, true, pos
          added[a+1], added[a+2] = e, pos
          a = a + 2
        end
      else
        exceptions = exceptions + 1
        out[#out+1] = i - 1
        out[#out+1] = pos
      end
    end
    if a > 0 then call('HSET', ids, unpack(added)) end
    if failure then break end
  end
  out[reply+1] = exceptions
  if changed then call('HSET', meta, 'n', number(n), 'l', last) end
  if failure then return failure end
end
if tonumber(ARGV[4]) > have then call('HSET', KEYS[1], field, ARGV[4]) end
return out
`)

// idsScript answers with the place that a stream got last, also when its entry is gone
// ("" where there is no stream, or the user may not ask), then with the place and the id of
// entries, "" for an entry that is none of ours. A Redis that lost batches is not believed.
//
//	KEYS claim, stream   ARGV epoch, least, from, limit
var idsScript = rueidis.NewLuaScript(`
local c = redis.call('HMGET', KEYS[1], 'epoch', 'batch')
if c[1] ~= ARGV[1] then return redis.error_reply('LILACEPOCH ' .. (c[1] or '')) end
if tonumber(c[2]) < tonumber(ARGV[2]) then return redis.error_reply('LILACLOST ' .. c[2]) end
local info, out = redis.pcall('XINFO', 'STREAM', KEYS[2]), {''}
for i = 1, #info, 2 do
  if info[i] == 'last-generated-id' then out[1] = info[i+1] end
end
local entries = redis.call('XRANGE', KEYS[2], ARGV[3], '+', 'COUNT', ARGV[4])
for i = 1, #entries do
  local f = entries[i][2]
  out[2*i], out[2*i+1] = entries[i][1], f[1] == 'i' and f[2] or ''
end
return out
`)

// goneScript notes that everything up to a place is gone, also when Redis has
// nothing behind it: then it is the newest.
//
//	KEYS claim, meta   ARGV epoch, place, its number
var goneScript = rueidis.NewLuaScript(`
local epoch = redis.call('HGET', KEYS[1], 'epoch')
if epoch ~= ARGV[1] then return redis.error_reply('LILACEPOCH ' .. (epoch or '')) end
redis.call('HSET', KEYS[2], 't', ARGV[2])
if tonumber(redis.call('HGET', KEYS[2], 'n')) < tonumber(ARGV[3]) then
  redis.call('HSET', KEYS[2], 'n', ARGV[3], 'l', ARGV[2])
end
return 1
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
  local appended = f[1] == 'i' and string.match(f[4] or '', '^[^\n]*\n(%d+)\n')
  if not appended or tonumber(appended) >= tonumber(ARGV[3]) then break end
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
