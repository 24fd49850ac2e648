# Sourced by mariadb and mysql, after common.sh: what the two have in common. Each of them sets server=(...), the
# command that runs the server, and has more_arguments PORT, which adds to arguments=() what a start needs besides.
user=mysql

main_process() { process_in "$dir/pid" "--defaults-file=$dir/my.cnf"; }

# common_settings: the part of my.cnf that both understand.
common_settings() {
  echo "[mysqld]
datadir = $dir/data
pid-file = $dir/pid
tmpdir = $dir/tmp
# No socket: its path could be too long.
socket =
bind-address = 127.0.0.1
skip-name-resolve
character-set-server = utf8mb4
max_connections = ${max_connections:-200}
innodb_buffer_pool_size = 32M
innodb_buffer_pool_dump_at_shutdown = OFF
innodb_buffer_pool_load_at_startup = OFF"
  # 2, not 0: what was committed outlives a killed server, and costs no flush.
  if [ "$durable" = yes ]; then
    echo "innodb_flush_log_at_trx_commit = 1"
  else
    echo "innodb_flush_log_at_trx_commit = 2
innodb_flush_method = nosync"
  fi
}

# wanted_settings: what the caller wants besides, to stand last.
wanted_settings() { [ ${#settings[@]} = 0 ] || printf '%s\n' "${settings[@]}"; }

# as_server_write FILE: from stdin, readable by the server's user alone.
as_server_write() { as_server sh -c 'umask 077; cat >"$1"' sh "$1"; }

# The SQL that makes the account of the tests. Others get no way in without a password, also not on this machine.
account() {
  echo "CREATE DATABASE rowlock;
CREATE USER 'rowlock'@'%' IDENTIFIED BY '$(cat "$dir/password")';
GRANT ALL PRIVILEGES ON *.* TO 'rowlock'@'%' WITH GRANT OPTION;"
}

launch() {
  local pid began=1 tries=0 arguments=()
  more_arguments "$1"
  # Appended to, so a new start is known by what comes after this.
  [ ! -e "$dir/log" ] || began=$(($(stat -c %s "$dir/log") + 1))
  moved_clock
  # All of these replace one another in one process, so that the pid is known before the server has written it. It gets a
  # session of its own, so that a Ctrl-C meant for the caller does not end it. What the caller has in MYSQL_HOME and the
  # like must not reach it.
  setsid "${as_server[@]}" env -u MYSQL_HOME -u MYSQL_UNIX_PORT -u MYSQL_TCP_PORT \
    sh -c 'echo $$ >"$1/pid" && shift && exec "$@"' sh "$dir" "${clock[@]}" \
    "${server[@]}" --defaults-file="$dir/my.cnf" --port="$1" "${arguments[@]}" >>"$dir/log" 2>&1 </dev/null &
  pid=$!
  until tail -c "+$began" "$dir/log" 2>/dev/null | grep -q 'd: ready for connections'; do
    tries=$((tries + 1))
    if [ $tries -gt 3600 ] || [ "$(state_of "$pid")" = gone ]; then
      [ -z "$(main_process)" ] || kill_all
      return 1
    fi
    sleep 0.05
  done
}

# Nothing is lost by it: both recover, and are faster than by an orderly end.
end_server() { kill_all; }

address() {
  echo "mysql://rowlock:$(cat "$dir/password")@127.0.0.1:$(cat "$dir/port")/rowlock"
}
