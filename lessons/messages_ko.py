"""What the set-up and the checks say, in the language "ko"."""

# Written by `python -m grader build` out of solutions/locales.
# fmt: off
MESSAGES = {'In Colab the checks speak English. A cell with `%env COURSE_LANGUAGE={1}`, run before the set-up cell, changes that.': 'Colab에서는 '
                                                                                                                         '확인의 '
                                                                                                                         '메시지가 '
                                                                                                                         '영어로 '
                                                                                                                         '나옵니다. '
                                                                                                                         '준비 '
                                                                                                                         '셀보다 '
                                                                                                                         '먼저 '
                                                                                                                         '`%env '
                                                                                                                         'COURSE_LANGUAGE={1}` '
                                                                                                                         '셀을 '
                                                                                                                         '실행하면 '
                                                                                                                         '한국어로 '
                                                                                                                         '나옵니다.',
 'called': '호출',
 'seen': '결과',
 'expected': '기대',
 'likely': '원인',
 'where': '위치',
 'wrong': '틀림',
 'right': '맞음',
 'total': '합계',
 'result': '결과',
 'devices': '장치',
 'microbatches': '마이크로배치',
 'nothing': '없음',
 '{1} of {2}': '{1} / {2}',
 '{1}: {2} of {3} point{4}.': '{1}: {3}점{4} 중 {2}점.',
 'JAX_PLATFORMS={1}, but this machine or this JAX has no such device. Unset JAX_PLATFORMS to simulate devices on the CPU.': 'JAX_PLATFORMS={1} '
                                                                                                                            '설정이 '
                                                                                                                            '있지만, '
                                                                                                                            '이 '
                                                                                                                            '컴퓨터나 '
                                                                                                                            '이 '
                                                                                                                            'JAX에는 '
                                                                                                                            '그런 '
                                                                                                                            '장치가 '
                                                                                                                            '없습니다. '
                                                                                                                            'CPU에서 '
                                                                                                                            '모의 '
                                                                                                                            '장치를 '
                                                                                                                            '쓰려면 '
                                                                                                                            'JAX_PLATFORMS '
                                                                                                                            '설정을 '
                                                                                                                            '해제하세요.',
 'Your shell asked for {1} devices; this notebook uses {2}. To silence this line, unset XLA_FLAGS or JAX_NUM_CPU_DEVICES there.': '셸은 '
                                                                                                                                  '장치 '
                                                                                                                                  '{1}개를 '
                                                                                                                                  '요청했지만 '
                                                                                                                                  '이 '
                                                                                                                                  '노트북은 '
                                                                                                                                  '{2}개를 '
                                                                                                                                  '씁니다. '
                                                                                                                                  '이 '
                                                                                                                                  '줄이 '
                                                                                                                                  '나오지 '
                                                                                                                                  '않게 '
                                                                                                                                  '하려면 '
                                                                                                                                  '셸에서 '
                                                                                                                                  'XLA_FLAGS나 '
                                                                                                                                  'JAX_NUM_CPU_DEVICES '
                                                                                                                                  '설정을 '
                                                                                                                                  '해제하세요.',
 'simulated CPU': '모의 CPU',
 'Ready: {1} {2} devices.': '준비 완료: {2} 장치 {1}개.',
 'This is Python {1}.{2}; the course needs 3.11, 3.12 or 3.13. Use one of these (in JupyterLab: Kernel > Change Kernel).': '지금 '
                                                                                                                           '쓰는 '
                                                                                                                           '것은 '
                                                                                                                           'Python '
                                                                                                                           '{1}.{2}입니다. '
                                                                                                                           '이 '
                                                                                                                           '강좌에는 '
                                                                                                                           '3.11, '
                                                                                                                           '3.12, '
                                                                                                                           '3.13 '
                                                                                                                           '중 '
                                                                                                                           '하나가 '
                                                                                                                           '필요합니다. '
                                                                                                                           '그중 '
                                                                                                                           '하나를 '
                                                                                                                           '쓰세요(JupyterLab에서는 '
                                                                                                                           'Kernel '
                                                                                                                           '> '
                                                                                                                           'Change '
                                                                                                                           'Kernel).',
 'COURSE_LANGUAGE={1}, but the course has no messages in it. Unset COURSE_LANGUAGE for English.': 'COURSE_LANGUAGE={1} '
                                                                                                  '설정이 '
                                                                                                  '있지만, '
                                                                                                  '이 '
                                                                                                  '강좌에는 '
                                                                                                  '그 '
                                                                                                  '언어로 '
                                                                                                  '된 '
                                                                                                  '메시지가 '
                                                                                                  '없습니다. '
                                                                                                  '영어로 '
                                                                                                  '보려면 '
                                                                                                  'COURSE_LANGUAGE '
                                                                                                  '설정을 '
                                                                                                  '해제하세요.',
 'This is JAX {1}; the course needs 0.7.2 or newer. Run `pip install "jax>=0.7.2"`, then restart the kernel.': '지금 '
                                                                                                               '쓰는 '
                                                                                                               '것은 '
                                                                                                               'JAX '
                                                                                                               '{1}입니다. '
                                                                                                               '이 '
                                                                                                               '강좌에는 '
                                                                                                               '0.7.2 '
                                                                                                               '이상이 '
                                                                                                               '필요합니다. '
                                                                                                               '`pip '
                                                                                                               'install '
                                                                                                               '"jax>=0.7.2"`를 '
                                                                                                               '실행한 '
                                                                                                               '다음 '
                                                                                                               '커널을 '
                                                                                                               '다시 '
                                                                                                               '시작하세요.',
 'JAX_PLATFORMS={1} gives {2} devices; this notebook needs {3}. Unset JAX_PLATFORMS to simulate them.': 'JAX_PLATFORMS={1} '
                                                                                                        '설정에서는 '
                                                                                                        '장치가 '
                                                                                                        '{2}개이지만, '
                                                                                                        '이 '
                                                                                                        '노트북에는 '
                                                                                                        '{3}개가 '
                                                                                                        '필요합니다. '
                                                                                                        '모의 '
                                                                                                        '장치를 '
                                                                                                        '쓰려면 '
                                                                                                        'JAX_PLATFORMS '
                                                                                                        '설정을 '
                                                                                                        '해제하세요.',
 'session (Runtime > Restart session)': '세션을 다시 시작(Runtime > Restart session)',
 'kernel (Kernel > Restart Kernel)': '커널을 다시 시작(Kernel > Restart Kernel)',
 'JAX had already started with {1} device(s) before this cell ran, and the number is fixed from then on. Restart the {2} and run this cell first.': '이 '
                                                                                                                                                    '셀을 '
                                                                                                                                                    '실행하기 '
                                                                                                                                                    '전에 '
                                                                                                                                                    'JAX가 '
                                                                                                                                                    '이미 '
                                                                                                                                                    '장치 '
                                                                                                                                                    '{1}개로 '
                                                                                                                                                    '시작했고, '
                                                                                                                                                    '그 '
                                                                                                                                                    '수는 '
                                                                                                                                                    '그때 '
                                                                                                                                                    '정해져 '
                                                                                                                                                    '바뀌지 '
                                                                                                                                                    '않습니다. '
                                                                                                                                                    '{2}한 '
                                                                                                                                                    '다음 '
                                                                                                                                                    '이 '
                                                                                                                                                    '셀을 '
                                                                                                                                                    '가장 '
                                                                                                                                                    '먼저 '
                                                                                                                                                    '실행하세요.',
 'not written yet': '아직 작성하지 않음',
 'not attempted yet': '아직 풀지 않음',
 'your code raised': '작성한 코드에서 오류 발생',
 'the check could not run': '확인을 실행하지 못함',
 '{1} point{2}': '{1}점{2}',
 '{1} does what it should. {2} of {3}.': '{1} 함수가 제대로 동작합니다. {3} 중 {2}점.',
 'Right: {1}': '맞음: {1}',
 '{1} is not defined.': '정의되지 않은 이름입니다: {1}.',
 'the cell that defines it was not run, or the name is misspelt.': '이 이름을 정의하는 셀을 실행하지 '
                                                                   '않았거나, 이름을 잘못 '
                                                                   '적었습니다.',
 'a fault of the course, not of your answer: please report it.': '답안이 아니라 강좌의 결함입니다. '
                                                                 '강좌를 만든 쪽에 알려 주세요.',
 'check not run yet': '아직 확인하지 않음',
 'The function returned None: is a return missing?': '함수가 None을 반환했습니다. return이 빠지지 '
                                                     '않았나요?',
 'The result has another structure.': '결과의 구조가 다릅니다.',
 'The result': '결과',
 '{1} is {2}, not {3}.': '{1}의 값이 {3} 대신 {2}입니다.',
 '{1} is another value.': '{1}의 값이 다릅니다.',
 '{1}, not {2}': '{2} 대신 {1}',
 '{1} has shape {2}.': '{1}의 모양이 {2}입니다.',
 '{1} has dtype {2}, not {3}.': '{1}의 dtype이 {3} 대신 {2}입니다.',
 '{1} is wrong on all {2} devices.': '{1}이(가) 장치 {2}개 모두에서 틀립니다.',
 '{1} is wrong on devices {2} of {3}.': '{1}이(가) 장치 {3}개 중 {2}번에서 틀립니다.',
 '{1} is wrong.': '{1}의 값이 틀립니다.',
 '{1} is wrong in all {2} leading-axis blocks.': '{1}이(가) 맨 앞 축의 블록 {2}개 모두에서 틀립니다.',
 '{1} is wrong in leading-axis blocks {2} of {3}.': '{1}이(가) 맨 앞 축의 블록 {3}개 중 {2}번에서 '
                                                    '틀립니다.',
 '{1} is wrong in {2} of {3} values.': '{1}의 값 {3}개 중 {2}개가 틀립니다.',
 ', in a loop': ', 반복문 안',
 'an object of type {1}': '{1} 타입의 객체',
 '{1} on each of {2} devices, axis "{3}"': '장치 {2}개 각각에서 {1}, 축 "{3}"',
 'deleted array': '삭제된 배열',
 'object array': 'object 배열',
 'occurs at source:  (.+)': 'occurs at source:  (.+)',
 'no answer within {1} s': '{1}초 안에 응답이 없었습니다',
 'no error text': '오류 메시지가 없습니다',
 'pmap looked for a device axis in an argument that has none, or another one; in_axes=None sends an argument whole': '장치 '
                                                                                                                     '축이 '
                                                                                                                     '없거나 '
                                                                                                                     '다른 '
                                                                                                                     '장치 '
                                                                                                                     '축을 '
                                                                                                                     '가진 '
                                                                                                                     '인자에서 '
                                                                                                                     'pmap이 '
                                                                                                                     '장치 '
                                                                                                                     '축을 '
                                                                                                                     '찾으려 '
                                                                                                                     '했습니다. '
                                                                                                                     'in_axes=None을 '
                                                                                                                     '주면 '
                                                                                                                     '인자를 '
                                                                                                                     '통째로 '
                                                                                                                     '보냅니다',
 'unbound axis name': 'unbound axis name',
 'a collective names an axis that nobody bound: use the argument axis_name, or the name that pmap was given': '집합 '
                                                                                                              '연산에 '
                                                                                                              '적힌 '
                                                                                                              '축 '
                                                                                                              '이름이 '
                                                                                                              '어디에도 '
                                                                                                              '정해져 '
                                                                                                              '있지 '
                                                                                                              '않습니다. '
                                                                                                              '인자 '
                                                                                                              'axis_name을 '
                                                                                                              '쓰거나, '
                                                                                                              'pmap에 '
                                                                                                              '준 '
                                                                                                              '이름을 '
                                                                                                              '쓰세요',
 'context mesh .* should match the mesh': 'context mesh .* should match the mesh',
 'the check maps your function with pmap already: leave pmap out of it': '확인이 이미 '
                                                                         'pmap으로 함수를 '
                                                                         '매핑합니다. 함수에서 '
                                                                         'pmap을 빼세요',
 'in traced code the size of an array cannot depend on values: jnp.where(mask, x, 0) in place of x[mask]': '추적되는 '
                                                                                                           '코드에서는 '
                                                                                                           '배열의 '
                                                                                                           '크기가 '
                                                                                                           '값에 '
                                                                                                           '따라 '
                                                                                                           '달라질 '
                                                                                                           '수 '
                                                                                                           '없습니다. '
                                                                                                           'x[mask] '
                                                                                                           '대신 '
                                                                                                           'jnp.where(mask, '
                                                                                                           'x, '
                                                                                                           '0)을 '
                                                                                                           '쓰세요',
 'in traced code `if` cannot depend on a value: jnp.where chooses there': '추적되는 코드에서는 '
                                                                          '`if`가 값에 따라 '
                                                                          '갈라질 수 없습니다. '
                                                                          '그럴 때는 '
                                                                          'jnp.where로 '
                                                                          '고르세요',
 'must have __hash__': 'must have __hash__',
 'the pairs of ppermute hold traced values: they are plain numbers, the same whole list on every device': 'ppermute의 '
                                                                                                          '쌍에 '
                                                                                                          '추적되는 '
                                                                                                          '값이 '
                                                                                                          '들어 '
                                                                                                          '있습니다. '
                                                                                                          '쌍은 '
                                                                                                          '보통의 '
                                                                                                          '수여야 '
                                                                                                          '하고, '
                                                                                                          '모든 '
                                                                                                          '장치에서 '
                                                                                                          '똑같은 '
                                                                                                          '전체 '
                                                                                                          '목록이어야 '
                                                                                                          '합니다',
 'a NumPy function inside traced code: use jnp there': '추적되는 코드 안에 NumPy 함수가 있습니다. 그 '
                                                       '자리에는 jnp를 쓰세요',
 'traced code has no numbers yet, so int() and float() find none: compute with the value as it is': '추적되는 '
                                                                                                    '코드에는 '
                                                                                                    '아직 '
                                                                                                    '수가 '
                                                                                                    '없어서 '
                                                                                                    'int()와 '
                                                                                                    'float()가 '
                                                                                                    '수를 '
                                                                                                    '얻지 '
                                                                                                    '못합니다. '
                                                                                                    '값을 '
                                                                                                    '그대로 '
                                                                                                    '계산에 '
                                                                                                    '쓰세요',
 'only defined for scalar-output': 'only defined for scalar-output',
 'only a single number can be differentiated: is a sum or a mean missing?': '수 하나만 미분할 '
                                                                            '수 있습니다. '
                                                                            '합이나 평균이 '
                                                                            '빠지지 않았나요?',
 'shard_map tracks what differs between devices, and what the loop starts with does not yet: check_vma=False, or jax.lax.pcast': 'shard_map은 '
                                                                                                                                 '장치마다 '
                                                                                                                                 '달라지는 '
                                                                                                                                 '값을 '
                                                                                                                                 '구별하는데, '
                                                                                                                                 '반복문의 '
                                                                                                                                 '초깃값은 '
                                                                                                                                 '아직 '
                                                                                                                                 '달라지지 '
                                                                                                                                 '않는 '
                                                                                                                                 '값입니다. '
                                                                                                                                 'check_vma=False나 '
                                                                                                                                 'jax.lax.pcast를 '
                                                                                                                                 '쓰세요',
 'body function carry input and carry output': 'body function carry input and carry '
                                               'output',
 'a loop carries on what its first round got, and this round returned something else: another order, shape or dtype?': '반복문은 '
                                                                                                                       '첫 '
                                                                                                                       '회에 '
                                                                                                                       '받은 '
                                                                                                                       '것과 '
                                                                                                                       '같은 '
                                                                                                                       '꼴을 '
                                                                                                                       '다음 '
                                                                                                                       '회로 '
                                                                                                                       '넘겨야 '
                                                                                                                       '하는데, '
                                                                                                                       '이번 '
                                                                                                                       '회에서는 '
                                                                                                                       '다른 '
                                                                                                                       '것을 '
                                                                                                                       '반환했습니다. '
                                                                                                                       '순서나 '
                                                                                                                       '모양, '
                                                                                                                       'dtype이 '
                                                                                                                       '다르지 '
                                                                                                                       '않나요?',
 "require replication which can't be statically inferred": 'require replication which '
                                                           "can't be statically "
                                                           'inferred',
 'out_specs say that the result is the same on all devices, but it differs: pmean it, and the loss inside of what you differentiate': 'out_specs에는 '
                                                                                                                                      '결과가 '
                                                                                                                                      '모든 '
                                                                                                                                      '장치에서 '
                                                                                                                                      '같다고 '
                                                                                                                                      '적혀 '
                                                                                                                                      '있지만 '
                                                                                                                                      '실제로는 '
                                                                                                                                      '다릅니다. '
                                                                                                                                      '결과에 '
                                                                                                                                      'pmean을 '
                                                                                                                                      '적용하고, '
                                                                                                                                      '손실에는 '
                                                                                                                                      '미분하는 '
                                                                                                                                      '함수 '
                                                                                                                                      '안에서 '
                                                                                                                                      '적용하세요',
 'does not match the specs of the input': 'does not match the specs of the input',
 'jax.make_mesh made explicit axes, its default in newer versions: use Mesh(devices, names), or axis_types=(AxisType.Auto,)': 'jax.make_mesh가 '
                                                                                                                              '명시적(Explicit) '
                                                                                                                              '축을 '
                                                                                                                              '만들었습니다. '
                                                                                                                              '최신 '
                                                                                                                              '버전의 '
                                                                                                                              '기본값입니다. '
                                                                                                                              'Mesh(devices, '
                                                                                                                              'names)나 '
                                                                                                                              'axis_types=(AxisType.Auto,)를 '
                                                                                                                              '쓰세요',
 '_specs entry which is too long': '_specs entry which is too long',
 'a spec names more axes than its array has: P() for a single number': '스펙에 적은 축이 배열의 '
                                                                       '축보다 많습니다. 수 '
                                                                       '하나에는 P()를 쓰세요',
 'in {1}, line {2} of its cell: {3}': '함수 {1}, 셀의 {2}번째 줄: {3}',
 '{1} whose text names {2}': '{1}, 메시지에 나올 값: {2}',
 'returned {1}': '반환값이 {1}입니다',
 'No {1} was raised.': '{1} 예외가 발생하지 않았습니다.',
 '{1} was raised where {2} was expected.': '{2} 예외가 나야 하는데 {1} 예외가 발생했습니다.',
 'The {1} does not name {2}.': '{1}의 메시지에 있어야 할 값이 없습니다: {2}.',
 'Argument {1} was modified in place.': '{1}번째 인자를 제자리에서 바꾸었습니다.',
 "a new object; the caller's stays as it was": '새 객체를 만들고, 호출한 쪽의 것은 그대로 둡니다',
 'The result is {1}, not a dict.': '결과가 딕셔너리가 아니라 {1}입니다.',
 'a dict': '딕셔너리',
 'no such entry': '그런 항목이 없습니다',
 'The entry "{1}" is not what it should be.': '항목 "{1}"의 값이 올바르지 않습니다.',
 'A fresh process saw {1} device{2}.': '새 프로세스에서 보인 장치가 {1}개{2}입니다.',
 'JAX did not start in a fresh process with this environment.': '이 환경으로 시작한 새 프로세스에서 '
                                                                'JAX가 시작되지 않았습니다.',
 '; it said: {1}': '; 출력: {1}',
 '{1} devices': '장치 {1}개',
 '{1} still holds its stub.': '{1}에 빈 함수(stub)가 아직 그대로 있습니다.',
 'replace its last line by your answer, run the cell, then this one.': '마지막 줄을 답안으로 '
                                                                       '바꾸고 그 셀을 실행한 '
                                                                       '다음, 이 셀을 '
                                                                       '실행하세요.',
 '{1} devices with one row of the leading axis each': '맨 앞 축의 행을 하나씩 가진 장치 {1}개',
 '{1} is on no device.': '{1}의 배열이 어느 장치에도 없습니다.',
 '{1} on the host': '호스트에 있는 {1}',
 'NumPy computes on the host; jax.pmap computes on devices': 'NumPy는 호스트에서, jax.pmap은 '
                                                             '장치에서 계산합니다',
 '{1} lives on {2} device{3}, not on {4}.': '{1}이(가) 장치 {4}개가 아니라 {2}개{3}에 있습니다.',
 '{1} on {2} device{3}': '장치 {2}개{3}에 있는 {1}',
 '{1} is not split along its leading axis.': '{1}의 배열이 맨 앞 축을 따라 나뉘어 있지 않습니다.',
 'device {1} holds rows {2} to {3}': '장치 {1}에 {2}번부터 {3}번까지의 행이 있습니다',
 '{1} devices hold {2} values of {3}.': '장치 {1}개가 가진 {3}의 값이 {2}가지입니다.',
 'All {1} devices hold a different {2}.': '장치 {1}개가 가진 {2}의 값이 모두 다릅니다.',
 'replicas that agree bit for bit': '비트 하나까지 서로 같은 복제본',
 'no array of more than {1} elements': '원소가 {1}개보다 많은 배열이 없는 프로그램',
 'a program without an array of this shape': '이런 모양의 배열이 없는 프로그램',
 'The program builds an array of shape {1}.': '프로그램이 {1} 모양의 배열을 만듭니다.',
 '{1} elements': '원소 {1}개',
 'no collective': '집합 연산이 없는 프로그램',
 'The program runs {1} an unknown number of times.': '프로그램이 {1} 연산을 몇 번 실행하는지 알 수 '
                                                     '없습니다.',
 'The program runs {1} {2}, not {3}.': '프로그램의 {2} 실행 횟수가 {3} 대신 {1}입니다.',
 'The program runs {1}, which it must not.': '프로그램이 실행하지 말아야 할 {1} 연산을 실행합니다.',
 'The {1} runs inside of a loop.': '{1} 연산이 반복문 안에서 실행됩니다.',
 'one after the loop': '반복문 뒤에 한 번',
 'at most {1} bytes': '최대 {1}바이트',
 'at least {1} bytes': '최소 {1}바이트',
 'Each device sends {1} bytes.': '각 장치가 보내는 바이트 수가 {1}입니다.',
 'Each device sends an unknown number of bytes.': '각 장치가 몇 바이트를 보내는지 알 수 없습니다.',
 'multiplies matrices': '행렬 곱셈',
 'adds up elements': '원소 합산',
 'takes exponentials': '지수 함수',
 'no such operation': '그런 연산이 없습니다',
 'The program {1} in {2}, not in {3} alone.': '프로그램에서 {1} 연산의 dtype이 {3} 하나가 아니라 '
                                              '{2}입니다.',
 'The program {1} nowhere.': '프로그램 어디에도 {1} 연산이 없습니다.',
 'The call compiled {1} program{2} again.': '이 호출이 프로그램 {1}개{2}를 다시 컴파일했습니다.',
 'pmap or jit is called inside of the function, which makes a new program each time: decorate the function, or map it once outside': '함수 '
                                                                                                                                     '안에서 '
                                                                                                                                     'pmap이나 '
                                                                                                                                     'jit을 '
                                                                                                                                     '불러 '
                                                                                                                                     '매번 '
                                                                                                                                     '새 '
                                                                                                                                     '프로그램이 '
                                                                                                                                     '만들어집니다. '
                                                                                                                                     '함수에 '
                                                                                                                                     '데코레이터로 '
                                                                                                                                     '붙이거나, '
                                                                                                                                     '바깥에서 '
                                                                                                                                     '한 '
                                                                                                                                     '번만 '
                                                                                                                                     '적용하세요',
 'the program that an earlier call with these shapes compiled': '모양이 같은 앞선 호출에서 컴파일한 '
                                                                '프로그램',
 'NumPy or float() on a value that devices compute: use jnp, which traces; or jax.set_mesh, .lower or .compile inside of the function': '장치가 '
                                                                                                                                        '계산하는 '
                                                                                                                                        '값에 '
                                                                                                                                        'NumPy나 '
                                                                                                                                        'float()를 '
                                                                                                                                        '썼습니다. '
                                                                                                                                        '추적할 '
                                                                                                                                        '수 '
                                                                                                                                        '있는 '
                                                                                                                                        'jnp를 '
                                                                                                                                        '쓰세요. '
                                                                                                                                        '그렇지 '
                                                                                                                                        '않다면 '
                                                                                                                                        '함수 '
                                                                                                                                        '안에 '
                                                                                                                                        'jax.set_mesh, '
                                                                                                                                        '.lower, '
                                                                                                                                        '.compile '
                                                                                                                                        '중 '
                                                                                                                                        '하나가 '
                                                                                                                                        '있습니다',
 'a program that traces': '추적할 수 있는 프로그램',
 'JAX could not trace the function.': 'JAX가 함수를 추적하지 못했습니다.',
 '{1} devices do not divide among {2} processes.': '장치 {1}개는 프로세스 {2}개에 똑같이 나누어지지 '
                                                   '않습니다.',
 'Ended after {1} s: it did not finish.': '{1}초가 지나도 끝나지 않아 종료시켰습니다.',
 'ended with code {1}: {2}': '끝났습니다(종료 코드 {1}): {2}',
 'was killed by {1}': '강제로 종료되었습니다(신호 {1})',
 'The process {1}.': '프로세스가 {1}.',
 'Process {1} of {2} {3}; the others were ended.': '프로세스 {2}개 중 {1}번이 {3}. 나머지는 '
                                                   '종료시켰습니다.',
 'it said nothing': '아무 출력도 없었습니다',
 'Runs {1}.': '{1} 함수를 실행합니다.',
 'from {1} import {2}{3}': 'from {1} import {2}{3}',
 '{1} uses {2}, a {3}, which cannot be written into a script: make it inside of a function.': '{1}에서 '
                                                                                              '쓰는 '
                                                                                              '{2}, '
                                                                                              '곧 '
                                                                                              '{3} '
                                                                                              '타입의 '
                                                                                              '객체는 '
                                                                                              '스크립트에 '
                                                                                              '적을 '
                                                                                              '수 '
                                                                                              '없습니다. '
                                                                                              '함수 '
                                                                                              '안에서 '
                                                                                              '만드세요.',
 'The source of {1} is not found: run its cell again.': '{1}의 소스를 찾을 수 없습니다. 그 셀을 다시 '
                                                        '실행하세요.',
 '**After this lesson you can**': '**이 강의를 마치면 할 수 있는 것**',
 'Hint 1': '힌트 1',
 'Hint 2': '힌트 2',
 'Hint 3': '힌트 3',
 '*About 8 minutes. Difficulty 1 of 3. 2 points.*': '*약 8분. 난이도 1/3. 2점.*',
 '*About 6 minutes. Difficulty 1 of 3. 2 points.*': '*약 6분. 난이도 1/3. 2점.*',
 '*About 12 minutes. Difficulty 2 of 3. 3 points.*': '*약 12분. 난이도 2/3. 3점.*',
 '*About 15 minutes. Difficulty 2 of 3. 3 points.*': '*약 15분. 난이도 2/3. 3점.*',
 'Recap': '정리',
 'Three questions': '세 가지 질문',
 'Now in the wild': '실제 코드에서는',
 'all replicas were computed on one device': '모든 복제본을 장치 하나에서 계산했습니다',
 '*About 10 minutes. Difficulty 2 of 3. 2 points.*': '*약 10분. 난이도 2/3. 2점.*',
 '*About 18 minutes. Difficulty 3 of 3. 4 points.*': '*약 18분. 난이도 3/3. 4점.*',
 '*About 10 minutes. Difficulty 2 of 3. 3 points.*': '*약 10분. 난이도 2/3. 3점.*',
 'A flag in XLA_FLAGS is gone.': 'XLA_FLAGS에 있던 플래그가 사라졌습니다.',
 'the rows were dealt out like cards, not cut in order': '행을 순서대로 자르지 않고 카드를 돌리듯 하나씩 '
                                                         '나누었습니다',
 'test whether B divides before you reshape: what reshape raises says less': '모양을 바꾸기 '
                                                                             '전에 B가 '
                                                                             '나누어떨어지는지 '
                                                                             '검사하세요. '
                                                                             'reshape가 '
                                                                             '일으키는 오류는 '
                                                                             '그만큼 알려 '
                                                                             '주지 않습니다',
 'computed as one array on one device, without jax.pmap': 'jax.pmap 없이 장치 하나에서 배열 하나로 '
                                                          '계산했습니다',
 'the bias was not added': '편향을 더하지 않았습니다',
 'computed on one device, without jax.pmap': 'jax.pmap 없이 장치 하나에서 계산했습니다',
 'the parameters were stacked by hand; in_axes=None sends them whole': '파라미터를 직접 '
                                                                       '쌓았습니다. '
                                                                       'in_axes=None을 '
                                                                       '주면 통째로 보냅니다',
 'the square root is missing': '제곱근이 빠졌습니다',
 'absolute differences were added up': '차이의 절댓값을 더했습니다',
 'the differences of all devices were built at once': '모든 장치의 차이를 한꺼번에 만들었습니다',
 'the devices share a key: split it, one key per device': '모든 장치가 키 하나를 함께 씁니다. 키를 나누어 '
                                                          '장치마다 하나씩 주세요',
 '{1} of 8 members are distinct.': '멤버 8개 중 서로 다른 것은 {1}개입니다.',
 'The biases are not zero.': '편향이 0이 아닙니다.',
 '{1} / sqrt({2})': '{1} / sqrt({2})',
 '1 / sqrt({1})': '1 / sqrt({1})',
 'The deviation of w is off.': 'w의 표준편차가 맞지 않습니다.',
 'the same key must give the same parameters': '같은 키에서는 같은 파라미터가 나와야 합니다',
 'Another key gives the same parameters.': '다른 키를 주어도 같은 파라미터가 나옵니다.',
 'gradients were averaged': '그레이디언트를 장치끼리 평균했습니다',
 'the gradient was added': '그레이디언트를 빼지 않고 더했습니다',
 'the step used 0.1 in place of lr': '스텝에서 lr 대신 0.1을 썼습니다',
 'one step is missing': '스텝 하나가 빠졌습니다',
 'the spread is the largest single difference, over all entries of all arrays': '벌어진 '
                                                                                '정도는 '
                                                                                '모든 '
                                                                                '배열의 '
                                                                                '모든 '
                                                                                '원소를 '
                                                                                '통틀어 '
                                                                                '가장 큰 '
                                                                                '차이 '
                                                                                '하나입니다',
 "this is the mean of the devices' means": '장치별 평균을 다시 평균한 값입니다',
 'each device kept its own mean: nothing was sent': '아무것도 보내지 않아, 장치마다 자기 평균이 그대로 '
                                                    '남았습니다',
 'this is the mean of all entries': '셈에 넣지 않을 것까지 포함한 모든 원소의 평균입니다',
 'the data was sent, not its sum and count': '합과 개수가 아니라 데이터를 보냈습니다',
 'nan times 0 is nan: use jnp.where': 'nan에 0을 곱해도 nan이므로 jnp.where를 쓰세요',
 '0 / 0: nothing counts on any device': '어느 장치에도 셈에 넣을 원소가 없어 0 / 0이 되었습니다',
 'this is the softmax of the mean logits': '로짓의 평균에 softmax를 적용한 값입니다',
 "the members' probabilities were summed": '멤버의 확률을 평균하지 않고 더했습니다',
 "each device kept its own member's answer": '장치마다 자기 멤버의 답이 그대로 남았습니다',
 'the parameters were sent': '파라미터를 보냈습니다',
 'each device normalised over its own classes only': '장치마다 자기 클래스만으로 정규화했습니다',
 'each device subtracted its own maximum: share it': '장치마다 자기 최댓값을 뺐으니, 최댓값을 모든 장치가 '
                                                     '공유하게 하세요',
 'the sums were averaged, not added up': '장치별 합을 더하지 않고 평균했습니다',
 'this is the softmax, without a logarithm': '로그를 취하지 않은 softmax입니다',
 'logits were sent: a maximum and a sum per row are enough': '로짓을 보냈지만, 행마다 최댓값 하나와 합 '
                                                             '하나면 충분합니다',
 "exp overflows, or log(0): subtract each row's maximum, then log(the sum)": 'exp가 '
                                                                             '오버플로했거나 '
                                                                             'log(0)이 '
                                                                             '되었으니, '
                                                                             '행마다 최댓값을 '
                                                                             '뺀 다음 '
                                                                             'log(합)을 '
                                                                             '빼세요',
 'each device used its own rows only': '장치마다 자기 행만 썼습니다',
 "the devices' variances were averaged, but their means differ too": '장치별 분산을 평균했지만, '
                                                                     '평균도 장치마다 다릅니다',
 'rows were sent, not statistics': '통계량이 아니라 행을 보냈습니다',
 'mean(x**2) - mean(x)**2 loses all digits here: use the distance from the mean': '여기서 '
                                                                                  'mean(x**2) '
                                                                                  '- '
                                                                                  'mean(x)**2는 '
                                                                                  '유효 '
                                                                                  '숫자를 '
                                                                                  '모두 '
                                                                                  '잃으므로, '
                                                                                  '평균과의 '
                                                                                  '차이를 '
                                                                                  '쓰세요',
 'the rows arrived in another order': '행이 다른 순서로 도착했습니다',
 'each device kept its own block': '장치마다 자기 블록이 그대로 남았습니다',
 'each device put ones in: the value seen says how many blocks it contains': '장치마다 1을 '
                                                                             '넣었으므로, '
                                                                             '결과의 값은 '
                                                                             '블록 몇 개가 '
                                                                             '더해졌는지를 '
                                                                             '나타냅니다',
 'each device added in its own order: sum a chunk once, then hand it on': '장치마다 다른 순서로 '
                                                                          '더했으니, 청크마다 '
                                                                          '합을 한 번만 구한 '
                                                                          '다음 넘겨주세요',
 '2 (D - 1) sends, each of one chunk of n / D rows': '전송은 2 (D - 1)번이고, 한 번에 n / D행짜리 '
                                                     '청크 하나를 보냅니다',
 '2 (D - 1) messages of num_bytes / D: the bytes that section 5 counted': 'num_bytes / '
                                                                          'D바이트짜리 메시지가 '
                                                                          '2 (D - '
                                                                          '1)개이고, 모두 '
                                                                          '합하면 5절에서 센 '
                                                                          '바이트 수입니다',
 'every one of the 2 (D - 1) messages has its latency': '2 (D - 1)개의 메시지 하나하나에 지연 시간이 '
                                                        '듭니다',
 'one device has nobody to send to': '장치가 하나면 보낼 상대가 없습니다',
 'pmap gives num_devices devices a row each; jnp.stack and P() do not': 'pmap은 장치 '
                                                                        'num_devices개에 '
                                                                        '한 행씩 놓지만, '
                                                                        'jnp.stack과 '
                                                                        'P()는 그렇지 않습니다',
 'the replicas were averaged': '복제본을 평균했습니다',
 'that is the last replica': '마지막 복제본입니다',
 'each gradient, and the loss, is sent once per step, and nothing else': '스텝마다 각 '
                                                                         '그레이디언트와 손실을 '
                                                                         '한 번씩만 보내고, 그 '
                                                                         '밖에는 아무것도 보내지 '
                                                                         '않습니다',
 'pmean gradients and loss (in pmap, pmean in the loss combines no gradients)': '그레이디언트와 '
                                                                                '손실을 '
                                                                                'pmean으로 '
                                                                                '평균하세요 '
                                                                                '(pmap에서는 '
                                                                                '손실 안의 '
                                                                                'pmean이 '
                                                                                '그레이디언트를 '
                                                                                '합치지 '
                                                                                '않습니다)',
 'nothing combined them: {1}': '장치의 값을 합치는 연산이 없습니다. {1}',
 'the gradients were added up: 8 times too large': '그레이디언트를 더하기만 해서 8배로 커졌습니다',
 'gradients and loss were added up, not averaged': '그레이디언트와 손실을 평균하지 않고 더했습니다',
 'a device computed the whole batch': '한 장치가 배치 전체를 계산했습니다',
 'lr is static, or closed over: make it an argument with in_axes=None': 'lr이 정적 인자이거나 '
                                                                        '클로저에 담긴 값입니다. '
                                                                        'in_axes=None인 '
                                                                        '인자로 만드세요',
 'Another lr compiled anew.': 'lr만 바꾸었는데 다시 컴파일했습니다.',
 'a true row of zeros was taken for padding': '0으로 채워진 실제 행을 패딩으로 여겼습니다',
 'masked rows were counted in the sum': '마스크로 가린 행을 합에 넣었습니다',
 'masked rows were counted like true ones': '마스크로 가린 행을 실제 행처럼 셌습니다',
 'each share is the whole mean; they add up to 8 times as much': '각 몫이 전체 평균이어서, 모두 '
                                                                 '더하면 8배가 됩니다',
 'divide by all true rows, once': '모든 장치의 실제 행 수로 한 번만 나누세요',
 'each microbatch took a step of its own': '마이크로배치마다 스텝을 따로 밟았습니다',
 'the gradients of the {1} were added up, not averaged': '{1}의 그레이디언트를 평균하지 않고 더했습니다',
 'gradients and losses of the {1} were added up': '{1}의 그레이디언트와 손실을 더하기만 했습니다',
 "nothing combined the devices' gradients or losses": '장치별 그레이디언트나 손실을 합치는 연산이 없습니다',
 'sync once, after the loop': '반복문이 끝난 뒤 한 번만 동기화하세요',
 'several microbatches were taken at once': '마이크로배치 여러 개를 한꺼번에 처리했습니다',
 "clipping saw each device's own gradient": '장치별 그레이디언트를 따로 클리핑했습니다',
 'the gradients were added up': '그레이디언트를 더하기만 했습니다',
 'nothing was clipped (by global norm, before AdamW)': '클리핑하지 않았습니다 (AdamW 전에 전역 노름으로 '
                                                       '클리핑하세요)',
 'the learning rate is constant': '학습률이 일정합니다',
 'the cosine ends early: Optax counts the warm-up in': '코사인이 너무 일찍 끝납니다. Optax는 워밍업 '
                                                       '스텝까지 포함해서 셉니다',
 'there is no weight decay': '가중치 감쇠가 없습니다',
 'gradients and losses were added up': '그레이디언트와 손실을 더하기만 했습니다',
 "the devices' gradients, or losses, were not averaged": '장치별 그레이디언트나 손실을 평균하지 않았습니다',
 "each variance is the mean of the devices' own: first agree on the mean": '각 분산이 장치별 '
                                                                           '분산의 평균입니다. '
                                                                           '먼저 모든 장치가 '
                                                                           '같은 평균을 써야 '
                                                                           '합니다',
 "every device drops the same units: fold the device's index in": '모든 장치가 같은 유닛을 끕니다. '
                                                                  '장치의 인덱스를 키에 섞어 넣으세요',
 'the step is not in the key': '키에 스텝이 들어 있지 않습니다',
 'the device came before the step': '장치를 스텝보다 먼저 섞어 넣었습니다',
 'moments, gradients or losses were not synchronised': '모멘트나 그레이디언트, 손실을 동기화하지 않았습니다',
 'the gradients were added up, not averaged': '그레이디언트를 평균하지 않고 더했습니다',
 'shard_map had summed it': 'shard_map이 이미 더했습니다',
 'summed twice': '두 번 더했습니다',
 'averaged twice': '두 번 평균했습니다',
 'the gradient is {1} times the right one: {2}': '그레이디언트가 올바른 값의 {1}배입니다. {2}',
 '{1}; the loss is a sum': '{1}. 손실은 평균이 아니라 합입니다',
 'no shard_map at all, another mesh, or P() for x and y': 'shard_map을 쓰지 않았거나, 메시가 '
                                                          '다르거나, x와 y에 P()를 썼습니다',
 'The result is not on all {1} devices.': '결과가 장치 {1}개 모두에 놓여 있지는 않습니다.',
 'each device computed all 64 rows': '각 장치가 64행을 모두 계산했습니다',
 'the mesh takes the first devices, in their order': '메시는 앞쪽 장치부터 순서대로 씁니다',
 'Device {1} holds {2} of {3}.': '장치 {1}에 {3}의 {2}이(가) 있습니다.',
 'the spec was not used: x is whole on every device': '스펙을 쓰지 않아 x가 모든 장치에 통째로 있습니다',
 "the first entry of spec belongs to the array's first axis": 'spec의 첫 항목은 배열의 첫 축에 '
                                                              '해당합니다',
 'axes that the spec does not name only add replicas': '스펙에 이름이 없는 축은 복제본만 늘립니다',
 'a tuple of names cuts by the product of their sizes': '이름의 튜플은 그 축의 크기를 모두 곱한 수만큼 '
                                                        '나눕니다',
 "The block's shape is no tuple.": '블록의 모양이 튜플이 아닙니다.',
 '@jax.jit above the whole function: the update belongs to the program': '@jax.jit을 함수 '
                                                                         '전체에 붙여야 합니다: '
                                                                         '갱신도 프로그램에 '
                                                                         '들어갑니다',
 'The step is not one compiled program.': '스텝이 컴파일된 프로그램 하나가 아닙니다.',
 'the gradient is 8 times too large: it was summed over devices': '그레이디언트가 8배로 너무 큽니다: '
                                                                  '여러 장치의 값을 평균하지 않고 '
                                                                  '더했습니다',
 'each device learned from its own rows only': '각 장치가 자기 행만으로 학습했습니다',
 'the loss is the one after the step': '손실이 스텝 이후의 값입니다',
 'every device computes all rows': '모든 장치가 모든 행을 계산합니다',
 'Each step compiles anew.': '스텝마다 새로 컴파일합니다.',
 'call jit once': 'jit은 한 번만 호출해야 합니다',
 'w1 by columns, w2 by rows: both along H': 'w1은 열 단위, w2는 행 단위로 나눕니다: 둘 다 H를 따라 나누는 '
                                            '것입니다',
 'constrain the output': '출력에 제약을 걸어야 합니다',
 'the hidden layer, or the batch, is whole on a device': '은닉층이나 배치가 한 장치에 통째로 있습니다',
 'one all-reduce per layer, of the output': 'all-reduce는 층마다 하나, 출력에만 필요합니다',
 'the first rule with the name counts, also one that says None': '그 이름이 나오는 첫 규칙을 '
                                                                 '따릅니다. None이라고 적힌 규칙도 '
                                                                 '마찬가지입니다',
 'The spec is a list, not a tuple.': '스펙이 튜플이 아니라 리스트입니다.',
 'make all of it inside of jax.jit(..., out_shardings=...)': '전부 jax.jit(..., '
                                                             'out_shardings=...) 안에서 '
                                                             '만들어야 합니다',
 'Whole weights or moments are made or moved outside of jit.': '가중치나 모멘트를 jit 밖에서 통째로 '
                                                               '만들거나 옮깁니다.',
 "out_shardings for Adam's state too: zeros depend on no parameter's values": 'Adam의 '
                                                                              '상태에도 '
                                                                              'out_shardings가 '
                                                                              '필요합니다: '
                                                                              '0으로 채운 '
                                                                              '배열은 어떤 '
                                                                              '파라미터의 '
                                                                              '값에도 '
                                                                              '의존하지 '
                                                                              '않습니다',
 "Adam's count": 'Adam의 count',
 'out_shardings=(shardings, None): else the compiler chooses': 'out_shardings=(shardings, '
                                                               'None)이 필요합니다: 없으면 '
                                                               '컴파일러가 고릅니다',
 'Adam forgets its state.': 'Adam이 상태를 잊습니다.',
 'go on from state["adam"]': 'state["adam"]에서 이어 가야 합니다',
 'The old state remains.': '이전 상태가 남아 있습니다.',
 'Whole weights are kept from the forward to the backward pass.': '순전파에서 역전파까지 가중치를 '
                                                                  '통째로 갖고 있습니다.',
 'mlp_loss gathers layer by layer': 'mlp_loss를 쓰면 한 층씩 모읍니다',
 'the parts were not summed': '부분을 서로 더하지 않았습니다',
 'every device had all of K, and the copies were summed': '모든 장치가 K 전체를 가졌고, 똑같은 사본을 '
                                                          '더했습니다',
 'the result': '결과',
 "only what shard_map's function sends counts": 'shard_map에 넘긴 함수가 보내는 것만 셉니다',
 'batch {1}': '배치 {1}',
 'every epoch has the order of the first': '모든 에폭의 순서가 첫 에폭과 같습니다',
 'the rest of an epoch is dropped': '에폭 끝에 남은 행이 버려집니다',
 'rows come in the order of the file': '행이 파일에 있는 순서대로 나옵니다',
 'the orders are those of another seed': '순서가 다른 시드의 것입니다',
 'start_step is not used': 'start_step을 쓰지 않습니다',
 'start_step is the number of a batch, not of a row': 'start_step은 행 번호가 아니라 배치 번호입니다',
 'the epoch begins again: rows come twice': '에폭이 처음부터 다시 시작합니다: 같은 행이 두 번 나옵니다',
 'the epoch': '에폭',
 'place(array, sharding) splits the rows': '행은 place(array, sharding)로 나눕니다',
 '{1} batches were on the devices when one was handed out.': '배치를 하나씩 내줄 때 장치에 있던 배치의 '
                                                             '수가 {1}입니다.',
 'the next batch is placed before the yield, not when it is asked for': '다음 배치는 요청을 받고 '
                                                                        '나서가 아니라 yield '
                                                                        '전에 장치에 놓아야 '
                                                                        '합니다',
 '2 each time: this one and the next': '매번 2: 이번 배치와 다음 배치',
 'one batch ahead is enough': '배치 하나만 앞서면 충분합니다',
 'a device steps on its own rows: pmean is missing': '장치가 자기 행만으로 스텝을 진행합니다: pmean이 '
                                                     '빠졌습니다',
 "8 devices' gradients add up: check_vma=False is missing": '장치 8개의 그레이디언트가 저절로 더해집니다: '
                                                            'check_vma=False가 빠졌습니다',
 "8 devices' gradients are added up: pmean averages": '장치 8개의 그레이디언트를 더했습니다: 평균을 내는 것은 '
                                                      'pmean입니다',
 "4 microbatches' gradients are added up, not averaged": '마이크로배치 4개의 그레이디언트를 평균하지 않고 '
                                                         '더했습니다',
 "4 microbatches' means are added up, not averaged": '마이크로배치 4개의 평균값을 다시 평균하지 않고 더했습니다',
 'grad_norm is measured behind the clipping': 'grad_norm을 클리핑한 뒤에 쟀습니다',
 "the loss is one device's: pmean is missing": '손실이 장치 하나의 값입니다: pmean이 빠졌습니다',
 'the loss is that of the last microbatch': '손실이 마지막 마이크로배치의 값입니다',
 'each device takes its own rows: in_specs=(P(), P("data"))': '각 장치는 자기 행만 받습니다: '
                                                              'in_specs=(P(), '
                                                              'P("data"))',
 'the sync belongs behind the loop over microbatches': '동기화는 마이크로배치 루프 뒤에 있어야 합니다',
 'each gradient crosses the devices once, after the loop': '각 그레이디언트는 루프가 끝난 뒤 한 번만 장치 '
                                                           '사이를 오갑니다',
 'a device takes all its rows at once, not one microbatch after another': '장치가 마이크로배치를 '
                                                                          '하나씩 처리하지 않고 '
                                                                          '자기 행을 한꺼번에 '
                                                                          '처리합니다',
 'The old state is still there.': '이전 상태가 아직 남아 있습니다.',
 'donate it: donate_argnums=0': '상태를 넘겨주어야 합니다: donate_argnums=0',
 'Later steps compiled {1} programs again.': '이후의 스텝에서 프로그램 {1}개를 다시 컴파일했습니다.',
 'jit once, outside of the step': 'jit은 스텝 밖에서 한 번만 합니다',
 'cast both factors to bfloat16: with a float32 one the product is float32': '곱하는 두 '
                                                                             '행렬을 모두 '
                                                                             'bfloat16으로 '
                                                                             '변환해야 '
                                                                             '합니다: '
                                                                             '하나라도 '
                                                                             'float32이면 '
                                                                             '곱도 '
                                                                             'float32입니다',
 'cast the logits to float32 before the softmax': '소프트맥스 전에 로짓을 float32로 변환해야 합니다',
 'The loss has no more digits than a bfloat16.': '손실의 자릿수가 bfloat16 수준에 그칩니다.',
 'losses or their mean were cast down': '손실이나 그 평균이 더 낮은 정밀도로 변환되었습니다',
 'differentiate with respect to the float32 parameters: cast inside of the loss': 'float32 '
                                                                                  '파라미터로 '
                                                                                  '미분해야 '
                                                                                  '합니다: '
                                                                                  '형 '
                                                                                  '변환은 '
                                                                                  '손실 '
                                                                                  '함수 '
                                                                                  '안에서 '
                                                                                  '합니다',
 'another structure': '다른 구조',
 'another layout': '다른 레이아웃',
 'The runs went on from steps {1}.': '각 실행이 이어받은 스텝은 {1}입니다.',
 'the newest checkpoint that is sound; a damaged one is deleted': '온전한 것 가운데 최신 '
                                                                  '체크포인트에서 이어 갑니다. 손상된 '
                                                                  '것은 지웁니다',
 'The restored state has {1}.': '복원한 상태는 fresh와 {1}입니다.',
 'structure and layout of fresh': 'fresh의 구조와 레이아웃',
 'StandardRestore(abstract(fresh)) asks for both': '둘 다 '
                                                   'StandardRestore(abstract(fresh))로 '
                                                   '요청합니다',
 'velocity, random key or position were not saved or not restored': '속도, 난수 키, 데이터 위치 '
                                                                    '가운데 저장하지 않았거나 '
                                                                    '복원하지 않은 것이 있습니다',
 'The resumed run is not bit for bit that of an uninterrupted one.': '재개한 실행의 결과가 중단 '
                                                                     '없이 실행한 결과와 비트까지 '
                                                                     '똑같지는 않습니다.',
 'the state went through another dtype': '상태가 중간에 다른 dtype을 거쳤습니다',
 'No line tells of the damaged checkpoint of step 7.': '스텝 7의 손상된 체크포인트를 알리는 줄이 출력되지 '
                                                       '않았습니다.',
 'taken for damaged: compare first, and raise outside of the try': '손상된 것으로 오해했습니다: 먼저 '
                                                                   '비교하고, 예외는 try 밖에서 '
                                                                   '내야 합니다',
 '{1} distinct pieces of shape {2}': '서로 다른 조각 {1}개, 모양 {2}',
 '{1} on {2} devices': '{1}, 장치 {2}개',
 '{1} has another layout.': '{1}의 레이아웃이 다릅니다.',
 'this is an older checkpoint': '최신이 아닌 이전 체크포인트입니다',
 'Orbax restored {1} in another layout.': 'Orbax가 {1}을(를) 다른 레이아웃으로 복원했습니다.',
 'give the layout to Orbax, as a target with shardings': '샤딩이 들어 있는 타깃으로 Orbax에 레이아웃을 '
                                                         '주어야 합니다',
 ', "before": true}': ', "before": true}',
 'one process waits for another: all make the same calls (section 6)': '한 프로세스가 다른 '
                                                                       '프로세스를 기다립니다: '
                                                                       '모두 같은 호출을 해야 '
                                                                       '합니다(6절)',
 'did not finish': '끝나지 않았습니다',
 'The script ended in another way.': '스크립트가 기대와 다르게 끝났습니다.',
 'The second run kept {1} lines of the log.': '두 번째 실행이 로그에서 남겨 둔 줄은 {1}줄입니다.',
 '{1}: steps of the checkpoint': '{1}: 체크포인트의 스텝 수',
 'restore_state gives the step to go on from, and for open_log': '이어 갈 스텝은 '
                                                                 'restore_state가 알려 '
                                                                 '줍니다. open_log에도 그 '
                                                                 '스텝을 줍니다',
 'no error': '오류 없음',
 '{1} naming {2}': '{2}을(를) 밝히는 {1}',
 'Bad settings are not refused as asked.': '잘못된 설정을 요구한 대로 거부하지 않습니다.',
 'an empty directory': '빈 디렉터리',
 'Something was written before the refusal.': '설정을 거부하기 전에 무언가를 썼습니다.',
 'The process was killed by SIGKILL.': '프로세스가 SIGKILL로 강제 종료되었습니다.',
 'state, stream or log start over': '상태, 스트림, 로그 가운데 처음부터 다시 시작하는 것이 있습니다',
 'Killed at step 37 and started again, it ends with other bits.': '스텝 37에서 강제 종료한 뒤 다시 '
                                                                  '시작하면 다른 비트로 끝납니다.',
 "device 0 alone takes them; the answer: the last device's last M results": '마이크로배치는 '
                                                                            '장치 0만 '
                                                                            '받습니다. 답은 '
                                                                            '마지막 장치의 '
                                                                            '마지막 결과 '
                                                                            'M개입니다',
 'one stage per device': '장치마다 스테이지 하나만 둡니다',
 'A device sends {1} times in {2} ticks (M + S - 1).': '장치 하나가 {2}틱(M + S - 1) 동안 {1}번 '
                                                       '보냅니다.',
 'Microbatches have {1} elements; a send has {2}.': '마이크로배치의 원소 수는 {1}인데, 한 번에 보내는 원소 '
                                                    '수는 {2}입니다.',
 "in_specs gives each device its own stage: P with the mesh's axis": 'in_specs로 각 장치에 '
                                                                     '자기 스테이지만 줍니다: '
                                                                     '메시의 축을 넣은 P를 씁니다'}
