# Supervises one server. Reads orders from its input and answers each with yes or no. When its input ends, it stops the
# server and removes the folder.
#
# Arguments: the folder, then the words that start the server.
trap '' INT TERM HUP
folder=$1
shift
server=
family() {
  if [ -e /proc/self/stat ]; then
    cat "/proc/$server/task/$server/children"
  else
    pgrep -P "$server"
  fi
  echo "$server"
}
# A frozen server starts no more children. Grandchildren end by themselves without their parent.
stop() {
  [ "$server" ] || return
  kill -STOP "$server"
  kill -KILL $(family)
  wait "$server"
  # Another process may get its id from now on.
  server=
}
pause() {
  [ "$server" ] || return
  kill -STOP "$server"
  kill -STOP $(family)
  # The threads of a process stop one after the other.
  for process in $(family); do
    while grep -qs '^State:[[:space:]]*[RSD]' /proc/"$process"/task/*/status; do :; done
  done
}
run() {
  set --
  while IFS= read -r word && [ "$word" ]; do set -- "$@" "$word"; done
  "$@" </dev/null >"$folder/log" 2>&1
}
runs() {
  if [ -e /proc/self/stat ]; then
    read -r _ _ state _ <"/proc/$server/stat"
  else
    state=$(ps -o state= -p "$server")
  fi
  case $state in '' | Z*) return 1 ;; esac
}
while read -r order; do
  answer=yes
  case $order in
    start) stop; "$@" </dev/null >"$folder/log" 2>&1 & server=$! ;;
    kill) stop ;;
    wait) wait "$server"; server= ;;
    pause) pause ;;
    resume) [ "$server" ] && kill -CONT $(family) ;;
    run) run || answer=no ;;
    runs) state=; runs || answer=no ;;
  esac
  echo $answer
done
stop
# A killed PostgreSQL leaves this segment in the kernel.
segment=$(sed -n '7s/.* //p' "$folder/data/postmaster.pid")
[ "$segment" ] && ipcrm -m "$segment"
# The last processes of the server may still write into the folder.
rm -rf "$folder" || { sleep 1; rm -rf "$folder"; }
