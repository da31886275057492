-- SPDX-License-Identifier: Apache-2.0

local ipnuma = Proto("ipnuma", "IP-NUMA")
local ipnuma_tlp = Proto("ipnuma_tlp", "PCI Express TLP of IP-NUMA")

-- ---- Layouts ---------------------------------------------------------------------------------

local of_ipnuma, of_tlp = {}, {}

-- Each protocol registers the fields whose names begin with its own.
local function remember(abbreviation, made)
  local mine = abbreviation:sub(1, 11) == "ipnuma_tlp." and of_tlp or of_ipnuma
  mine[#mine + 1] = made
  return made
end

-- Wireshark masks the big-endian number in a field's bytes; its type must be as wide as they are.
local function proto_field(abbreviation, f)
  local name, bytes, shift, bits, show, names, meaning = f[1], f[3], f[4], f[5], f[6], f[7], f[8]
  local make = ({ ProtoField.uint8, ProtoField.uint16, ProtoField.uint24, ProtoField.uint32 })[bytes]
    or ProtoField.uint64
  local mask = nil
  if bits < 8 * bytes then
    mask = (2 ^ bits - 1) * 2 ^ shift
  end
  local label = name:gsub("_", " ")
  label = label:sub(1, 1):upper() .. label:sub(2)
  local base_of = (show == "dec" or show == "flag") and base.DEC or base.HEX
  return make(abbreviation, label, base_of, names, mask, meaning)
end

-- Fields by name, and in order.
local function layout(prefix, list)
  local result = { list = {}, bytes = 0 }
  for _, f in ipairs(list) do
    local abbreviation = prefix .. "." .. f[1]
    local entry = {
      field = remember(abbreviation, proto_field(abbreviation, f)),
      first = f[2], bytes = f[3], shift = f[4], bits = f[5], zero = f[6] == "zero",
    }
    result.list[#result.list + 1] = entry
    result[f[1]] = entry
    result.bytes = math.max(result.bytes, entry.first + entry.bytes)
  end
  return result
end

local function integer(value)
  return math.floor(value)
end

-- The value of a field of at most 32 bits.
local function get(range, entry)
  local word = range(entry.first, entry.bytes):uint()
  return integer(word / 2 ^ entry.shift) % integer(2 ^ entry.bits)
end

-- @layouts

-- ---- Fields that no layout has ---------------------------------------------------------------

local function field(make, abbreviation, label, ...)
  return remember(abbreviation, make(abbreviation, label, ...))
end

local F = {
  data = field(ProtoField.bytes, "ipnuma.data", "Data"),
  acknowledgement = field(ProtoField.uint16, "ipnuma.acknowledgement", "Acknowledgement"),
  dws = field(ProtoField.uint16, "ipnuma.length", "Length in DWs"),
  first_be = field(ProtoField.uint8, "ipnuma.first_be", "Bytes enabled in the first DW", base.HEX),
  last_be = field(ProtoField.uint8, "ipnuma.last_be", "Bytes enabled in the last DW", base.HEX),
  end16 = field(ProtoField.uint16, "ipnuma.compact.end_code", "End code", base.HEX),
  end32 = field(ProtoField.uint32, "ipnuma.tlp.end_code", "End code", base.HEX),
  tag = field(ProtoField.uint32, "ipnuma.tag", "Computed end code xor received: tag, and upper half of the sequence", base.HEX),
  session = field(ProtoField.uint8, "ipnuma.session.index", "Session at the receiver"),
  session_epoch = field(ProtoField.uint8, "ipnuma.session.epoch", "Session epoch"),
  sealed = field(ProtoField.bytes, "ipnuma.seal.data", "Sealed payload"),
  seal_tag = field(ProtoField.bytes, "ipnuma.seal.tag", "Authentication tag"),
  tlp_address = field(ProtoField.uint64, "ipnuma_tlp.address", "Address", base.HEX),
  tlp_dw3 = field(ProtoField.uint32, "ipnuma_tlp.dw3", "Fourth DW", base.HEX),
  tlp_data = field(ProtoField.bytes, "ipnuma_tlp.data", "Data"),
  tlp_digest = field(ProtoField.uint32, "ipnuma_tlp.digest", "Digest", base.HEX),
}

ipnuma.fields = of_ipnuma
ipnuma_tlp.fields = of_tlp

local X = {}
do
  local groups, severities = expert.group, expert.severity
  local function add(proto, list)
    local made = {}
    for _, x in ipairs(list) do
      X[x[1]] = ProtoExpert.new(x[2], x[3], groups[x[4]], severities[x[5]])
      made[#made + 1] = X[x[1]]
    end
    proto.experts = made
  end
  add(ipnuma, {
    { "bad_magic", "ipnuma.bad_magic", "begins as neither format does", "PROTOCOL", "ERROR" },
    { "bad_length", "ipnuma.bad_length", "length is not what the header says", "PROTOCOL", "ERROR" },
    { "bad_tlp", "ipnuma.bad_tlp", "TLP that the format does not have", "PROTOCOL", "ERROR" },
    { "bad_session", "ipnuma.bad_session", "only sessions have this frame", "PROTOCOL", "ERROR" },
    { "bad_end_code", "ipnuma.bad_end_code", "end code wrong", "CHECKSUM", "ERROR" },
    { "reserved", "ipnuma.reserved", "bits that are sent as 0 are not 0", "PROTOCOL", "WARN" },
    { "refused", "ipnuma.refused", "operation refused by its receiver", "RESPONSE_CODE", "NOTE" },
  })
  add(ipnuma_tlp, {
    { "tlp_length", "ipnuma_tlp.bad_length", "longer or shorter than its header says", "PROTOCOL", "ERROR" },
    { "tlp_type", "ipnuma_tlp.unknown", "none of MRd, MWr, Cpl and CplD", "UNDECODED", "NOTE" },
    { "tlp_poisoned", "ipnuma_tlp.poisoned", "data poisoned", "PROTOCOL", "WARN" },
    { "tlp_status", "ipnuma_tlp.failed", "completion without success", "RESPONSE_CODE", "NOTE" },
    { "tlp_reserved", "ipnuma_tlp.reserved", "bits that are sent as 0 are not 0", "PROTOCOL", "WARN" },
  })
end

-- ---- Arithmetic ------------------------------------------------------------------------------

-- Exclusive or of two numbers below 2^32. Lua 5.3 has an operator, which older versions can't even parse.
local bxor
do
  local compiled = load("return function(a, b) return a ~ b end")
  if compiled then
    bxor = compiled()
  else
    local library = bit32 or bit
    bxor = function(a, b)
      return library.bxor(a, b) % 4294967296
    end
  end
end

local crc16_table, crc32c_table = {}, {}
for i = 0, 255 do
  local high, low = i * 256, i
  for _ = 1, 8 do
    high = high * 2
    if high >= 65536 then
      high = bxor(high - 65536, 0x1021)
    end
    local odd = low % 2
    low = integer(low / 2)
    if odd == 1 then
      low = bxor(low, 0x82F63B78)
    end
  end
  crc16_table[i], crc32c_table[i] = high, low
end

-- The CRCs begin with `seed`, whose source port stands before the payload if it is that of a session.
local function crc16(seed, payload)
  local crc, text = 0xFFFF, seed .. payload
  for i = 1, #text do
    local index = bxor(integer(crc / 256), text:byte(i))
    crc = bxor((crc % 256) * 256, crc16_table[index])
  end
  return crc
end

local function crc32c(seed, payload)
  local crc, text = 0xFFFFFFFF, seed .. payload
  for i = 1, #text do
    crc = bxor(integer(crc / 256), crc32c_table[bxor(crc % 256, text:byte(i))])
  end
  return bxor(crc, 0xFFFFFFFF)
end

-- Whether PCI Express permits byte enables: bytes in a row, but in one DW, and in the two of a quadword.
local function legal_enables(length, first_be, last_be, offset)
  if length == 1 then
    return last_be == 0
  end
  if length == 2 and offset % 8 == 0 then
    return first_be ~= 0 and last_be ~= 0
  end
  local to_the_end = { [15] = true, [14] = true, [12] = true, [8] = true }
  local from_the_start = { [15] = true, [7] = true, [3] = true, [1] = true }
  return to_the_end[first_be] and from_the_start[last_be]
end

-- First and last byte enables of a store that leaves out bytes at its start and end.
local function byte_enables(dws, lead, trail)
  local first = (0xF * integer(2 ^ lead)) % 16
  local last = integer(0xF / 2 ^ trail)
  if dws > 1 then
    return first, last
  end
  local both = 0
  for bit_number = 0, 3 do
    local weight = integer(2 ^ bit_number)
    if integer(first / weight) % 2 == 1 and integer(last / weight) % 2 == 1 then
      both = both + weight
    end
  end
  return both, 0
end

-- ---- Dissection ------------------------------------------------------------------------------

local function show(tree, range, what, reserved)
  for _, entry in ipairs(what.list) do
    local item = tree:add(entry.field, range(entry.first, entry.bytes))
    if entry.zero and get(range, entry) ~= 0 then
      item:add_proto_expert_info(reserved)
    end
  end
end

local function fmt_name(fmt_type)
  return FMT_TYPES[fmt_type] or string.format("TLP type 0x%02x", fmt_type)
end

-- What the end code covers beside the payload: the source port, in a session.
local function seed_of(pinfo)
  local port = pinfo.src_port
  if port < SESSION_PORTS then
    return ""
  end
  return string.char(integer(port / 256), port % 256)
end

-- The end code can't be judged fully without knowing the region's tag; but a right one leaves at most 12 bits, and
-- none where there is no region. A frame with a number of a session may leave 16 bits, which are all of a compact one's.
local function show_end(tree, range, bytes, has_tag, pinfo, sequenced)
  local seed = seed_of(pinfo)
  local at = range:len() - bytes
  local text = range:raw(0, at)
  local received, computed, item
  if bytes == COMPACT_END_BYTES then
    received, computed = range(at, bytes):uint(), crc16(seed, text)
    item = tree:add(F.end16, range(at, bytes))
  else
    received, computed = range(at, bytes):le_uint(), crc32c(seed, text)
    item = tree:add_le(F.end32, range(at, bytes))
  end
  local tag = bxor(received, computed)
  tree:add(F.tag, range(at, bytes), tag):set_generated()
  local limit = has_tag and TAG_LIMIT or 1
  if seed ~= "" and sequenced then
    limit = 65536
  end
  if tag >= limit then
    item:add_proto_expert_info(X.bad_end_code)
    return false
  end
  return true
end

local function bad(pinfo, tree, why, text)
  tree:add_proto_expert_info(why, text)
  pinfo.cols.info = text
end

local function dissect_compact(range, pinfo, root)
  local tree = root:add(range(0, HEADER_BYTES), "Compact header")
  show(tree, range(0, HEADER_BYTES), COMPACT, X.reserved)
  local end_bytes = COMPACT_END_BYTES
  local acknowledged = get(range, COMPACT.acknowledged) == 1
  if acknowledged then
    end_bytes = end_bytes + 2
  end
  local data_bytes = range:len() - HEADER_BYTES - end_bytes
  local lead, trail = get(range, COMPACT.offset) % 4, get(range, COMPACT.trail)
  local dws = data_bytes / 4
  if data_bytes == 4 and byte_enables(1, lead, trail) == 0 then
    return bad(pinfo, tree, X.bad_tlp, "store of no byte at all")
  end
  if data_bytes % 4 ~= 0 or dws < 1 or dws > MAX_DATA_DW then
    return bad(pinfo, tree, X.bad_length, string.format("%d bytes of data", data_bytes))
  end
  dws = integer(dws)
  local first_be, last_be = byte_enables(dws, lead, trail)
  root:add(F.dws, range(HEADER_BYTES, data_bytes), dws):set_generated()
  root:add(F.first_be, range(0, 0), first_be):set_generated()
  root:add(F.last_be, range(0, 0), last_be):set_generated()
  root:add(F.data, range(HEADER_BYTES, data_bytes))
  if acknowledged then
    root:add(F.acknowledgement, range(HEADER_BYTES + data_bytes, 2))
  end
  local whole = show_end(root, range, COMPACT_END_BYTES, true, pinfo, true)
  pinfo.cols.info = string.format(
    "store %d bytes, key 0x%x offset 0x%x, sequence %d%s", data_bytes - lead - trail,
    get(range, COMPACT.key), get(range, COMPACT.offset), get(range, COMPACT.sequence),
    whole and "" or ", bad end code")
end

local function dissect_control(range, pinfo, root)
  local tree = root:add(range(0, HEADER_BYTES), "Control header")
  show(tree, range(0, HEADER_BYTES), CONTROL, X.reserved)
  if range:len() ~= CONTROL_BYTES then
    return bad(pinfo, tree, X.bad_length, string.format("%d bytes, a control frame has %d", range:len(), CONTROL_BYTES))
  end
  local code = get(range, CONTROL.code)
  local is_void = code == CONTROL_VOID
  local whole = show_end(root, range, COMPACT_END_BYTES, false, pinfo, is_void)
  local text = is_void and string.format("sequence %d", get(range, CONTROL.sequence))
    or string.format("expects %d", get(range, CONTROL.expected))
  pinfo.cols.info = string.format("%s, %s%s", CONTROL_CODES[code], text, whole and "" or ", bad end code")
  if seed_of(pinfo) == "" then
    tree:add_proto_expert_info(X.bad_session)
  end
end

-- A sealed payload can't be opened here: who has the keys?
local function dissect_sealed(range, pinfo, root)
  local tree = root:add(range(0, SEAL_HEADER_BYTES), "Seal")
  show(tree, range(0, SEAL_HEADER_BYTES), SEAL, X.reserved)
  local bytes = range:len() - SEAL_HEADER_BYTES - SEAL_TAG_BYTES
  if bytes < CONTROL_BYTES then
    return bad(pinfo, tree, X.bad_length, "shorter than any sealed frame")
  end
  root:add(F.sealed, range(SEAL_HEADER_BYTES, bytes))
  root:add(F.seal_tag, range(SEAL_HEADER_BYTES + bytes, SEAL_TAG_BYTES))
  local number = get(range, SEAL.packet_high) * 4294967296.0 + get(range, SEAL.packet_low)
  pinfo.cols.info = string.format("sealed, packet %.0f, %d bytes", number, bytes)
  if seed_of(pinfo) == "" then
    tree:add_proto_expert_info(X.bad_session)
  end
end

-- Header of a TLP; returns a sentence for the list of packets.
local function show_header(range, tree, fmt_type)
  show(tree, range(0, 4), HEAD, X.tlp_reserved)
  local name = fmt_name(fmt_type)
  local length = get(range, HEAD.length)
  if get(range, HEAD.ep) == 1 then
    tree:add_proto_expert_info(X.tlp_poisoned)
  end
  if fmt_type == FMT_CPL or fmt_type == FMT_CPLD then
    local dw12 = range(4, 8)
    show(tree, dw12, COMPLETION, X.tlp_reserved)
    local status = get(dw12, COMPLETION.status)
    if status ~= 0 then
      tree:add_proto_expert_info(X.tlp_status)
    end
    return string.format("%s, tag 0x%02x, %s, byte count %d", name, get(dw12, COMPLETION.tag),
      STATUSES[status] or "reserved status", get(dw12, COMPLETION.byte_count))
  end
  if FMT_TYPES[fmt_type] then
    local dw1 = range(4, 4)
    show(tree, dw1, REQUEST, X.tlp_reserved)
    return string.format("%s, tag 0x%02x, %d DWs", name, get(dw1, REQUEST.tag), length == 0 and 1024 or length)
  end
  tree:add_proto_expert_info(X.tlp_type)
  return name
end

local function dissect_operation(range, pinfo, root)
  local header = range(HEADER_BYTES, TLP_HEADER_BYTES)
  local tree = root:add(ipnuma_tlp, header)
  local fmt_type = get(header, HEAD.fmt_type)
  local length = get(header, HEAD.length)
  local info = show_header(header, tree, fmt_type)
  local data_bytes = range:len() - HEADER_BYTES - TLP_HEADER_BYTES - TLP_END_BYTES
  local is_request = fmt_type == FMT_MRD64 or fmt_type == FMT_MWR64
  local has_data = fmt_type == FMT_MWR64 or fmt_type == FMT_CPLD
  local wrong = nil
  if not is_request and fmt_type ~= FMT_CPL and fmt_type ~= FMT_CPLD then
    wrong = fmt_name(fmt_type) .. " does not travel"
  elseif get(header, HEAD.td) == 1 or get(header, HEAD.ep) == 1 then
    wrong = "digest or poison does not travel"
  end
  if is_request then
    local address = root:add(header(8, 8), "Wire address")
    show(address, header(8, 8), ADDRESS, X.reserved)
    local first_be, last_be = get(header(4, 4), REQUEST.first_be), get(header(4, 4), REQUEST.last_be)
    local offset = get(header(8, 8), ADDRESS.offset)
    if get(header(8, 8), ADDRESS.zero) ~= 0 or offset % 4 ~= 0 then
      wrong = wrong or "wire address beyond its fields"
    elseif not legal_enables(length, first_be, last_be, offset) then
      wrong = wrong or "byte enables do not fit the length"
    end
    info = string.format("%s, key 0x%x offset 0x%x", info, get(header(8, 8), ADDRESS.key), offset)
  else
    tree:add(F.tlp_dw3, header(12, 4))
  end
  if wrong then
    return bad(pinfo, tree, X.bad_tlp, wrong)
  end
  local expected = has_data and 4 * length or 0
  if ((is_request or has_data) and (length < 1 or length > MAX_DATA_DW)) or data_bytes ~= expected then
    return bad(pinfo, tree, X.bad_length, string.format("%d bytes of data, %d DWs in the header", data_bytes, length))
  end
  if data_bytes > 0 then
    root:add(F.data, range(HEADER_BYTES + TLP_HEADER_BYTES, data_bytes))
  end
  local sequenced = get(range, FORMAT.sequenced) == 1
  local whole = show_end(root, range, TLP_END_BYTES, is_request, pinfo, is_request and sequenced)
  if sequenced then
    info = string.format("%s, sequence %d", info, get(range, FORMAT.sequence))
  end
  pinfo.cols.info = info .. (whole and "" or ", bad end code")
end

local function dissect_error(range, pinfo, root)
  local body = range(HEADER_BYTES, TLP_HEADER_BYTES)
  local tree = root:add(body, "Error report")
  show(tree, body, ERROR, X.reserved)
  tree:add_proto_expert_info(X.refused)
  local fixed = HEADER_BYTES + TLP_HEADER_BYTES + TLP_END_BYTES
  if range:len() ~= fixed then
    return bad(pinfo, tree, X.bad_length, string.format("%d bytes, an error report has %d", range:len(), fixed))
  end
  local whole = show_end(root, range, TLP_END_BYTES, false, pinfo, false)
  pinfo.cols.info = string.format("refused: %s, %s of sequence %d%s",
    ERROR_CODES[get(body, ERROR.code)] or "unknown code", fmt_name(get(body, ERROR.fmt_type)),
    get(body, ERROR.sequence_high) * 65536 + get(body, ERROR.sequence), whole and "" or ", bad end code")
end

function ipnuma.dissector(tvb, pinfo, parent)
  pinfo.cols.protocol = "IP-NUMA"
  local root = parent:add(ipnuma, tvb())
  if tvb:len() < tvb:reported_len() then
    root:append_text(" (cut off by the capture)")
    return
  end
  local range = tvb()
  if range:len() < HEADER_BYTES + COMPACT_END_BYTES then
    return bad(pinfo, root, X.bad_length, "shorter than any frame")
  end
  if pinfo.src_port >= SESSION_PORTS then
    root:add(F.session_epoch, range(0, 0), integer(pinfo.src_port / 256) % 64):set_generated()
    root:add(F.session, range(0, 0), pinfo.src_port % 256):set_generated()
  end
  if get(range, COMPACT.format) == COMPACT_NIBBLE and get(range, COMPACT.control) == 0 then
    return dissect_compact(range, pinfo, root)
  end
  if get(range, COMPACT.format) == COMPACT_NIBBLE and CONTROL_CODES[get(range, CONTROL.code)]
    and get(range, CONTROL.acknowledged) == 0
  then
    return dissect_control(range, pinfo, root)
  end
  if get(range, SEAL.magic) == SEAL_MAGIC then
    return dissect_sealed(range, pinfo, root)
  end
  local kind = get(range, FORMAT.kind)
  if get(range, FORMAT.magic) ~= TLP_MAGIC or get(range, FORMAT.zero) ~= 0 or kind > KIND_ERROR then
    return bad(pinfo, root, X.bad_magic, "neither format")
  end
  show(root:add(range(0, HEADER_BYTES), "Header"), range(0, HEADER_BYTES), FORMAT, X.reserved)
  if range:len() < HEADER_BYTES + TLP_HEADER_BYTES + TLP_END_BYTES then
    return bad(pinfo, root, X.bad_length, "shorter than the tlp format")
  end
  if kind == KIND_TLP then
    dissect_operation(range, pinfo, root)
  else
    dissect_error(range, pinfo, root)
  end
end

-- A TLP as it crosses PCI Express.
function ipnuma_tlp.dissector(tvb, pinfo, parent)
  pinfo.cols.protocol = "TLP"
  local root = parent:add(ipnuma_tlp, tvb())
  if tvb:len() < tvb:reported_len() then
    root:append_text(" (cut off by the capture)")
    return
  end
  local range = tvb()
  local function is_set(value, weight)
    return integer(value / weight) % 2 == 1
  end
  if range:len() < 12 then
    return bad(pinfo, root, X.tlp_length, "ends inside its header")
  end
  local fmt_type = get(range, HEAD.fmt_type)
  local header_bytes = is_set(fmt_type, 0x20) and 16 or 12
  if range:len() < header_bytes then
    return bad(pinfo, root, X.tlp_length, "ends inside its header")
  end
  local info = show_header(range(0, header_bytes), root, fmt_type)
  local data_bytes = 0
  if is_set(fmt_type, 0x40) then
    local length = get(range, HEAD.length)
    data_bytes = 4 * (length == 0 and 1024 or length)
  end
  local digest_bytes = get(range, HEAD.td) == 1 and 4 or 0
  if fmt_type ~= FMT_CPL and fmt_type ~= FMT_CPLD and FMT_TYPES[fmt_type] then
    local address = range(8, header_bytes - 8)
    root:add(F.tlp_address, address)
    info = string.format("%s, address 0x%s", info, tostring(address:bytes()):lower())
  end
  pinfo.cols.info = info
  if range:len() ~= header_bytes + data_bytes + digest_bytes then
    return bad(pinfo, root, X.tlp_length, info .. ", wrong length")
  end
  if data_bytes > 0 then
    root:add(F.tlp_data, range(header_bytes, data_bytes))
  end
  if digest_bytes > 0 then
    root:add(F.tlp_digest, range(header_bytes + data_bytes, 4))
  end
end

DissectorTable.get("udp.port"):add(UDP_PORT, ipnuma)
DissectorTable.get("wtap_encap"):add((wtap_encaps or wtap).USER0, ipnuma_tlp)
