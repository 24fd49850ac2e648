# bash completion for rowlock(1). What there is to complete is asked of the program itself, of its --help, so that it is
# always that of the program at hand.

# _rowlock_help WORD...: what the program, with these words before it, says to --help, a line each:
# "command NAME", "flag --NAME", or "option --NAME TYPE [-N]".
_rowlock_help() {
  command "$@" --help 2>/dev/null </dev/null | awk '
    /^[A-Z][a-z]*:$/ { list = $1; next }
    /^$/ { list = "" }
    list == "Subcommands:" && /^  [a-z]/ { print "command", $1 }
    list == "Options:" && /^  -/ {
      short = ($1 ~ /^-[a-zA-Z],/ ? substr($1, 1, 2) : "")
      sub(/^-[a-zA-Z],/, "", $1)
      sub(/:.*/, "", $2)
      print ($2 ~ /^[A-Z]+$/ && $2 != "REQUIRED" ? "option " $1 " " $2 " " short : "flag " $1)
    }'
}

# For _rowlock, in its variables: what may come behind `path`. Options of the levels above may stand anywhere.
_rowlock_read() {
  local kind name type short
  commands=()
  while read -r kind name type short; do
    case $kind in
      command) commands+=("$name") ;;
      option)
        options+=("$name")
        types[$name]=$type
        [[ -z $short ]] || types[$short]=$type
        ;;
      flag) options+=("$name") ;;
    esac
  done < <(_rowlock_help "${path[@]}")
}

# _rowlock_command INDEX: the command of `rowlock run`, or of another that runs one, begins there, which has completions of its own.
_rowlock_command() {
  if declare -F _command_offset >/dev/null; then
    _command_offset "$1"
  elif ((COMP_CWORD == $1)); then
    mapfile -t COMPREPLY < <(compgen -c -- "$cur")
  else
    compopt -o default
  fi
}

_rowlock() {
  local cur=${COMP_WORDS[COMP_CWORD]} waiting= named= i word
  local -a path=("${1/#\~/$HOME}") commands options=()
  local -A types=()
  COMPREPLY=()
  _rowlock_read
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [[ $word == = ]]; then
      continue  # bash makes three words of --ttl=30s
    elif [[ $word == : ]]; then
      waiting=URL  # and of sqlite:FILE
    elif [[ -n $waiting ]]; then
      waiting=
    elif [[ $word == -- ]]; then
      _rowlock_command $((i + 1))
      return
    elif [[ $word == -* ]]; then
      waiting=${types[$word]-}
      [[ -z $named ]] || named=optioned
    elif [[ ${path[1]-} == @(run|lead|once) && -z $named ]]; then
      named=yes
      if ((COMP_CWORD > i + 1)) && [[ ${COMP_WORDS[i + 1]} != -* ]]; then
        _rowlock_command $((i + 1))
        return
      fi
    elif [[ " ${commands[*]} " == *" $word "* ]]; then
      path+=("$word")
      _rowlock_read
    fi
  done
  if [[ $named == yes && $cur != -* ]]; then
    _rowlock_command "$COMP_CWORD"
    return
  fi
  [[ $cur != : ]] || waiting=URL
  local -r start=${cur#[=:]}

  case $waiting in
    '')
      local words=${commands[*]}
      [[ $cur != -* ]] || words=${options[*]}
      mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
      ;;
    STRATEGY) mapfile -t COMPREPLY < <(compgen -W "lease unique_insert row_lock" -- "$start") ;;
    PATH)
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -f -- "$start")
      ;;
    URL)
      if [[ $cur == : || ${COMP_WORDS[COMP_CWORD - 1]} == : ]]; then
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- "$start")
      else
        compopt -o nospace
        mapfile -t COMPREPLY < <(compgen -W "sqlite: postgresql:// mysql:// mariadb://" -- "$start")
      fi
      ;;
  esac
}

complete -F _rowlock rowlock
