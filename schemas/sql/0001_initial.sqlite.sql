-- The whole of the data, also what later versions fill. Ids on the wire are opaque text (`id`); inside, people and
-- rooms are 64-bit keys. Times are milliseconds since the Unix epoch. A row of `events` stands for every seq of a
-- room; `messages` and the other tables hold the present state. The MySQL file beside this one has the same tables.

create table meta (
  k varchar(64) not null primary key,
  v text not null
) without rowid;

-- People ------------------------------------------------------------------------------------------------------

create table users (
  user_key integer primary key autoincrement,
  id varchar(64) not null unique,
  name varchar(255) not null,
  folded_name varchar(512) not null unique,
  display_name varchar(512) not null default '',
  picture varchar(512) not null default '',
  generation bigint not null default 1,
  created_at bigint not null,
  last_seen bigint,
  deleted_at bigint
);

create table credentials (
  user bigint not null primary key,
  password_hash varchar(512) not null,
  changed_at bigint not null
) without rowid;

create table revocations (
  user bigint not null,
  jti varchar(255) not null,
  expires_at bigint not null,
  primary key (user, jti)
) without rowid;
create index revocations_expiry on revocations (expires_at);

create table login_devices (
  user bigint not null,
  device_hash varchar(128) not null,
  at bigint not null,
  primary key (user, device_hash)
) without rowid;

create table user_blocks (
  user bigint not null,
  blocked bigint not null,
  at bigint not null,
  primary key (user, blocked)
) without rowid;
create index user_blocks_blocked on user_blocks (blocked, user);

create table user_suspensions (
  user bigint not null primary key,
  until bigint,
  reason text not null,
  at bigint not null
) without rowid;

create table user_devices (
  user bigint not null,
  device varchar(128) not null,
  address text not null,
  language varchar(35) not null default '',
  badge bigint not null default 0,
  at bigint not null,
  primary key (user, device)
) without rowid;

create table notification_settings (
  user bigint not null primary key,
  settings text not null
) without rowid;

-- Rooms -------------------------------------------------------------------------------------------------------

create table rooms (
  room_key integer primary key autoincrement,
  id varchar(64) not null unique,
  name varchar(512) not null,
  topic text not null,
  kind bigint not null,
  history bigint not null default 1,
  slow_mode_s bigint not null default 0,
  retention_days bigint not null default 0,
  place bigint,
  pair varchar(64) unique,
  creator bigint not null,
  created_at bigint not null,
  created_seq bigint not null,
  head_seq bigint not null,
  head_n bigint not null default 0,
  term bigint not null default 1,
  members bigint not null default 0,
  last_at bigint not null,
  deleted_at bigint
);

create table room_members (
  room bigint not null,
  user bigint not null,
  state bigint not null,
  role bigint not null default 1,
  joined_seq bigint not null default 0,
  joined_at bigint not null default 0,
  read_seq bigint not null default 0,
  read_n bigint not null default 0,
  read_own bigint not null default 0,
  own_n bigint not null default 0,
  notified_seq bigint not null default 0,
  pinned bigint not null default 0,
  position bigint not null default 0,
  muted_until bigint,
  level bigint not null default 1,
  nickname varchar(512) not null default '',
  primary key (room, user)
) without rowid;
create index room_members_user on room_members (user, state, room);

create table room_bans (
  room bigint not null,
  user bigint not null,
  banned_by bigint not null,
  until bigint,
  reason text not null,
  at bigint not null,
  primary key (room, user)
) without rowid;

-- Codes: room 0 lets one register, another lets one join that room.
create table invitations (
  code varchar(64) not null primary key,
  room bigint not null default 0,
  created_by bigint not null default 0,
  at bigint not null,
  expires_at bigint not null,
  used_by bigint,
  used_at bigint
) without rowid;
create index invitations_room on invitations (room);

-- The nonces of room.create, per user, with the room that the first one made.
create table room_creates (
  user bigint not null,
  nonce varchar(64) not null,
  request_hash varchar(64) not null,
  room bigint not null,
  primary key (user, nonce)
) without rowid;

-- The log and its present state -------------------------------------------------------------------------------

-- target: the message's seq, of member events the user's key. body: JSON where a kind needs one.
create table events (
  room bigint not null,
  seq bigint not null,
  kind bigint not null,
  sender bigint not null,
  target bigint not null default 0,
  at bigint not null,
  body text,
  primary key (room, seq)
) without rowid;

-- n: the message's ordinal in its room; own_n: among its sender's. A deleted one stays as a tombstone with its
-- nonce and request hash, so that a retry is still known.
create table messages (
  room bigint not null,
  seq bigint not null,
  n bigint not null,
  own_n bigint not null,
  at bigint not null,
  sender bigint not null,
  nonce varchar(64) not null,
  request_hash varchar(64) not null,
  text text not null,
  edited_at bigint,
  deleted bigint not null default 0,
  reply_to bigint,
  primary key (room, seq)
) without rowid;
create unique index messages_nonce on messages (room, sender, nonce);
create index messages_own on messages (room, sender, seq);
create index messages_deleted on messages (room, n, sender) where deleted = 1;

create table op_nonces (
  room bigint not null,
  user bigint not null,
  nonce varchar(64) not null,
  request_hash varchar(64) not null,
  seq bigint not null,
  at bigint not null,
  primary key (room, user, nonce)
) without rowid;

create table message_media (
  room bigint not null,
  seq bigint not null,
  position bigint not null,
  media varchar(64) not null,
  primary key (room, seq, position)
) without rowid;

-- user 0 is @all: it counts for those who were members at its seq.
create table message_mentions (
  room bigint not null,
  user bigint not null,
  seq bigint not null,
  primary key (room, user, seq)
) without rowid;
create index message_mentions_message on message_mentions (room, seq);

create table message_hashtags (
  room bigint not null,
  tag varchar(128) not null,
  seq bigint not null,
  primary key (room, tag, seq)
) without rowid;
create index message_hashtags_message on message_hashtags (room, seq);

create table reactions (
  room bigint not null,
  seq bigint not null,
  emoji varchar(64) not null,
  user bigint not null,
  at bigint not null,
  primary key (room, seq, emoji, user)
) without rowid;

create table message_pins (
  room bigint not null,
  seq bigint not null,
  pinned_by bigint not null,
  at bigint not null,
  primary key (room, seq)
) without rowid;

-- Shared state ------------------------------------------------------------------------------------------------

create table resources (
  room bigint not null,
  resource_key varchar(128) not null,
  version bigint not null,
  value text not null,
  primary key (room, resource_key)
) without rowid;

-- op_id is per user and room; the first value and version are what a repeat is answered with.
create table resource_ops (
  room bigint not null,
  user bigint not null,
  op_id varchar(64) not null,
  resource_key varchar(128) not null,
  request_hash varchar(64) not null,
  seq bigint not null,
  version bigint not null,
  value text not null,
  primary key (room, user, op_id)
) without rowid;

-- What people are told ----------------------------------------------------------------------------------------

create table notifications (
  notification_key integer primary key autoincrement,
  recipient bigint not null,
  sender bigint not null default 0,
  type bigint not null,
  title_key varchar(128) not null,
  title_params text not null,
  body_key varchar(128) not null,
  body_params text not null,
  room bigint not null default 0,
  seq bigint not null default 0,
  at bigint not null,
  read_at bigint
);
create index notifications_recipient on notifications (recipient, read_at, notification_key);
create index notifications_message on notifications (room, seq);

create table outbox (
  outbox_key integer primary key autoincrement,
  notification bigint not null,
  recipient bigint not null,
  device varchar(128) not null default '',
  due_at bigint not null,
  tries bigint not null default 0
);
create index outbox_due on outbox (due_at);
create index outbox_notification on outbox (notification);

-- People and places -------------------------------------------------------------------------------------------

create table places (
  place_key integer primary key autoincrement,
  id varchar(64) not null unique,
  name varchar(512) not null,
  latitude double,
  longitude double
);

create table user_location_history (
  user bigint not null,
  at bigint not null,
  place bigint not null,
  primary key (user, at, place)
) without rowid;
create index user_location_history_place on user_location_history (place, at);

-- Between two people: the smaller key first.
create table connections (
  small_user bigint not null,
  large_user bigint not null,
  score bigint not null,
  at bigint not null,
  primary key (small_user, large_user)
) without rowid;
create index connections_large on connections (large_user, small_user);

-- Keeping house -----------------------------------------------------------------------------------------------

create table media (
  id varchar(64) not null primary key,
  owner bigint not null,
  type varchar(128) not null,
  bytes bigint not null,
  sha256 varchar(64) not null,
  at bigint not null
) without rowid;
create index media_owner on media (owner, at);

create table reports (
  report_key integer primary key autoincrement,
  reporter bigint not null,
  room bigint not null,
  seq bigint not null,
  reason text not null,
  at bigint not null,
  closed_at bigint
);

create table jobs (
  job_key integer primary key autoincrement,
  kind varchar(64) not null,
  subject bigint not null,
  progress text not null,
  at bigint not null,
  done_at bigint
);
create index jobs_open on jobs (done_at, job_key);

create table audit (
  audit_key integer primary key autoincrement,
  at bigint not null,
  actor bigint not null default 0,
  action varchar(64) not null,
  subject varchar(128) not null,
  detail text not null
);
